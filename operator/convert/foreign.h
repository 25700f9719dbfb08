#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operator/convert/convert.h"
#include "operator/convert/draft.h"
#include "operator/job/job_reader.h"

// A job of another operator: a table of its fields, and what its replicas become.
namespace coxswain::convert {

struct Replica {
  int replicas = 1;
  Json pod_template;
};

// What has been read of a foreign job so far.
struct Foreign {
  Draft draft;
  std::map<std::string, Replica> roles;  // by their own names: Launcher, Worker, PS
  std::map<std::string, Json> said;      // what only all of the job decides
  std::string image;                     // that the caller wants; empty: none

  std::string text(const std::string& key) const;  // of `said`
  bool has(const std::string& role) const { return roles.contains(role); }
};

// One field. In its path "*" is any key, or any element of a list; the first one is handed to
// `take`. A row speaks for all that is below it. Without an answer nothing is noted.
struct FieldRow {
  std::string_view path;
  Outcome outcome = Outcome::kBecame;
  std::string_view answer = {};
  std::string_view key = {};  // the field of our spec that takes the value as it is
  void (*take)(Foreign& foreign, const std::string& star, const Json& value) = nullptr;
};

// Reads a document by its tables. What no row knows has no place.
void read_fields(const job::JobDocument& document,
                 const std::vector<std::span<const FieldRow>>& tables, Foreign& foreign);

// Of every object, and of the runPolicy that Kubeflow's jobs share.
std::span<const FieldRow> metadata_rows();
std::span<const FieldRow> run_policy_rows();

// For rows: keeps the value under this name of `said`.
template <const char* kKey>
void said(Foreign& foreign, const std::string&, const Json& value) {
  foreign.said[kKey] = value;
}
void take_replicas(Foreign& foreign, const std::string& role, const Json& value);
void take_template(Foreign& foreign, const std::string& role, const Json& value);
void take_restart_policy(Foreign& foreign, const std::string& role, const Json& value);

// The template of a role as our pods take it: the container that trains is told from others, and
// what the operator sets itself is left out, with a note.
Json our_template(Foreign& foreign, const std::string& role);

// Says so where the templates of two roles differ, since one stands for both.
void compare_templates(Foreign& foreign, const std::string& taken, const std::string& other);

// The container that trains, in a template; null: there is none.
Json* main_container(Json& pod_template);

// Its command and args, one after the other.
std::vector<std::string> words_of(const Json& container);

// How restarts and the gang are as they are there.
void finish_policies(Foreign& foreign);

// A Launcher that runs mpirun, and the workers that it reaches: MPIJob's, and that of others.
void finish_mpi(Foreign& foreign, const std::string& launcher, const std::string& worker);

// Workers that find each other by MASTER_ADDR, TF_CONFIG or DMLC_*.
void finish_torch(Foreign& foreign, const std::string& master, const std::string& worker);
void finish_tensorflow(Foreign& foreign);
void finish_mxnet(Foreign& foreign, const std::string& worker, const std::string& server);

// A kind of job: its table, and what is made of all that was read.
struct Kind {
  std::string_view api_version;
  std::string_view kind;
  std::span<const FieldRow> rows;
  void (*finish)(Foreign& foreign);
};

std::span<const Kind> mpi_kinds();
std::span<const Kind> pytorch_kinds();
std::span<const Kind> tensorflow_kinds();
std::span<const Kind> mxnet_kinds();
std::span<const Kind> train_job_kinds();  // TrainJob
std::span<const Kind> runtime_kinds();    // what a TrainJob refers to
std::span<const Kind> volcano_kinds();

}  // namespace coxswain::convert
