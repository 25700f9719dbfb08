#include "trainer/contract/worker/question.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

#include "trainer/contract/printable.h"

namespace coxswain::contract {

namespace {

constexpr std::size_t kMostHeard = 64 << 10;
constexpr std::size_t kMostWords = 200;

}  // namespace

Question::Question(std::vector<std::string> command, std::map<std::string, std::string> environment,
                   std::chrono::milliseconds patience)
    : output_(make_pipe()),
      child_({.command = std::move(command),
              .environment = std::move(environment),
              .stdout_fd = output_.in.get(),
              .stderr_fd = output_.in.get()}),
      give_up_(Clock::now() + patience) {
  output_.in.close();
}

std::optional<int> Question::look() {
  listen();
  if (Clock::now() >= give_up_) child_.signal_group(SIGKILL);
  const auto end = child_.end();
  if (!end) return std::nullopt;
  listen();
  return end->code;
}

int Question::wait() {
  for (;;) {
    if (const auto code = look()) return *code;
    wait_readable({descriptor(), output_.out.get()}, std::chrono::seconds(1));
  }
}

std::string Question::last_words() const {
  const std::size_t end = heard_.find_last_not_of("\r\n ");
  if (end == std::string::npos) return "";
  const std::size_t before = heard_.find_last_of("\r\n", end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return printable(heard_.substr(begin, end + 1 - begin), kMostWords);
}

void Question::listen() {
  std::array<char, 4096> piece;
  for (ssize_t got = 1; got > 0;) {
    got = read(output_.out.get(), piece.data(), piece.size());
    if (got > 0) heard_.append(piece.data(), static_cast<std::size_t>(got));
    if (heard_.size() > kMostHeard) heard_.erase(0, heard_.size() - kMostHeard);
  }
}

}  // namespace coxswain::contract
