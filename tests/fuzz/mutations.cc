#include <sanitizer/common_interface_defs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

// What stands in for libFuzzer where the compiler has none: the corpus as it is, then changed in
// ways drawn from a fixed seed. The input that ends the program is left in a file.
//
//   fuzz_NAME CORPUS [SECONDS] [RUNS]

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr const char* kCulprit = "fuzz-culprit.bin";
constexpr std::size_t kLongest = 1 << 16;
constexpr unsigned kLimit = 20;  // seconds for one input
Bytes current;                   // for whoever asks why it ended

void leave_culprit() {
  std::FILE* file = std::fopen(kCulprit, "wb");
  if (!file) return;
  std::fwrite(current.data(), 1, current.size(), file);
  std::fclose(file);
  std::fprintf(stderr, "the input is in %s, %zu bytes\n", kCulprit, current.size());
}

std::vector<Bytes> read_corpus(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<Bytes> corpus;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return corpus;
}

class Mutator {
 public:
  explicit Mutator(std::vector<Bytes> corpus) : corpus_(std::move(corpus)) {}

  Bytes next() {
    Bytes bytes = any_of(corpus_);
    for (std::size_t times = 1 + below(6); times > 0; --times) change(bytes);
    bytes.resize(std::min(bytes.size(), kLongest));
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  template <class Values>
  const typename Values::value_type& any_of(const Values& values) {
    return values[below(values.size())];
  }

  void change(Bytes& bytes) {
    const std::size_t at = below(bytes.size() + 1);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t left = bytes.size() - at;
    const std::size_t count = std::min(left, 1 + below(std::size_t{1} << below(10)));
    const auto end = place + static_cast<std::ptrdiff_t>(count);
    switch (below(6)) {
      case 0:
        if (left > 0) *place ^= static_cast<std::uint8_t>(1U << below(8));
        return;
      case 1:
        return put_number(bytes, at);
      case 2:
        bytes.erase(place, end);
        return;
      case 3: {
        const Bytes copy(place, end);
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size() + 1)),
                     copy.begin(), copy.end());
        return;
      }
      case 4: {
        const Bytes& other = any_of(corpus_);
        const std::size_t from = below(other.size() + 1);
        bytes.resize(at);
        bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
        return;
      }
      default:
        std::generate(place, end, [this] { return static_cast<std::uint8_t>(random_()); });
    }
  }

  // Lengths and counts at their limits, in either order of bytes.
  void put_number(Bytes& bytes, std::size_t at) {
    static constexpr std::array<std::uint64_t, 8> kNumbers = {
        0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, 0xffffffffffffffff};
    const std::uint64_t number = any_of(kNumbers);
    const std::size_t width = std::size_t{1} << below(4);
    const bool is_big = below(2) == 1;
    for (std::size_t i = 0; i < width && at + i < bytes.size(); ++i)
      bytes[at + i] = static_cast<std::uint8_t>(number >> (8 * (is_big ? width - 1 - i : i)));
  }

  std::mt19937_64 random_{42};
  std::vector<Bytes> corpus_;
};

void run(const Bytes& bytes) {
  current = bytes;
  alarm(kLimit);
  // Of its own size: a read behind its end is noticed.
  (void)LLVMFuzzerTestOneInput(Bytes(bytes).data(), bytes.size());
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s CORPUS [SECONDS] [RUNS]\n", arguments[0]);
    return 2;
  }
  __sanitizer_set_death_callback(leave_culprit);
  for (const int signal : {SIGABRT, SIGALRM})
    std::signal(signal, [](int number) {
      leave_culprit();
      std::signal(number, SIG_DFL);
      std::raise(number);
    });
  const double seconds = count > 2 ? std::strtod(arguments[2], nullptr) : 2;
  const long runs = count > 3 ? std::strtol(arguments[3], nullptr, 10) : 20000;
  const std::vector<Bytes> corpus = read_corpus(arguments[1]);
  for (const Bytes& bytes : corpus) run(bytes);
  Mutator mutator(corpus);
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  long done = 0;
  for (; done < runs && elapsed() < seconds; ++done) run(mutator.next());
  std::printf("%zu inputs, %ld changed ones, %.1f s\n", corpus.size(), done, elapsed());
  return corpus.empty() ? 1 : 0;
}
