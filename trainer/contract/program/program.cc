#include "trainer/contract/program/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"

namespace coxswain {

namespace {

constexpr std::size_t kMostCharacters = 1000;  // of a message; an argument can be of any length

// open() gives the lowest free number, and the other direction makes every use fail.
void keep_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0)
      (void)open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// Not by fmt::print, which throws where nobody can be told.
int fail(std::string_view prefix, ExitCode code, std::string_view message) {
  std::fputs(fmt::format("{}{}\n", prefix, printable(message, kMostCharacters)).c_str(), stderr);
  return static_cast<int>(code);
}

int run_body(std::string_view prefix, const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    return fail(prefix, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(prefix, ExitCode::kInternal, "out of memory");
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return 0;  // print() throws then: told once, below
    return fail(prefix, ExitCode::kInternal, fmt::format("internal error: {}", error.what()));
  }
}

}  // namespace

int run_program(std::string_view prefix, const std::function<int()>& body) {
  keep_standard_descriptors();
  const int code = run_body(prefix, body);
  const bool failed = std::ferror(stdout) != 0;
  errno = 0;
  const bool is_flushed = std::fflush(stdout) == 0;
  if ((is_flushed && !failed) || code != 0) return code;
  const std::string why = errno != 0 ? std::strerror(errno) : "some of it is lost";
  return fail(prefix, ExitCode::kVolume, "standard output can't be written: " + why);
}

}  // namespace coxswain
