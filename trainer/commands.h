#pragma once

#include <string>
#include <vector>

namespace coxswain {

constexpr std::size_t kLongestPath = 4096;  // a limit that cuts no path

struct PackFlags {
  std::string from;  // a folder, mnist or cifar10
  std::string data;  // where mnist or cifar10 lie
  std::string to;    // FILE.rec, or a folder for both parts
  std::string part = "train";
  std::string encoding;  // keep | jpeg | png | raw
  int resize = 0;        // the shorter side
  int quality = 95;
  int shards = 1;
  int workers = 0;    // 0: as many as cores
  std::string check;  // FILE.rec
  std::string index;  // a folder
};

struct PreviewFlags {
  std::string out;  // FILE.png
  int samples = 24;
  int epoch = 1;
  bool evaluation = false;
};

// What main parsed; each command reads its own part. Configuration flags (--batchSize=128) are
// passed on as they are.
struct CommandLine {
  std::string config;                     // --config FILE
  std::vector<std::string> config_flags;  // --optimizer.lr=0.1 ...
  std::string log_format = "text";        // text | json
  bool print_config = false;
  std::string checkpoint;  // eval, export, predict: one's folder, or the directory that holds them
  std::string output;      // export: a file
  std::string format;      // export: safetensors | npz | onnx; empty: as the file's name ends
  bool per_class = false;  // eval
  std::vector<std::string> images;   // predict
  int top = 5;                       // predict: how many classes of each
  std::string launcher = "mpi";      // worker: mpi | env
  std::string host;                  // worker: where its ranks run
  std::string host_directory;        // worker: of this program there
  std::string wrote_on;              // worker: another host, before
  std::vector<std::string> command;  // worker, rank: CMD...
  std::string directory;             // report: of a run's checkpoints; timeline: a file
  PackFlags pack;
  PreviewFlags preview;
  double seconds = 3;       // bench: of each measurement
  bool print_plan = false;  // bench
  std::string network;  // models: a network of the user's own
};

// Each returns the exit code of the process, and throws Error for the rest.
int run_train(const CommandLine& line);
int run_server(const CommandLine& line);
int run_eval(const CommandLine& line);
int run_export(const CommandLine& line);
int run_predict(const CommandLine& line);
int run_models(const CommandLine& line);
int run_pack(const CommandLine& line);
int run_preview(const CommandLine& line);
int run_bench(const CommandLine& line);
int run_report(const CommandLine& line);
int run_timeline(const CommandLine& line);

}  // namespace coxswain
