#include "tests/trainer/ps/hostile_callers.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "tests/trainer/ps/hostile_call.h"
#include "tests/trainer/ps/mad_frames.h"

namespace coxswain::ps {

namespace {

constexpr int kAtOnce = 40;  // fewer than a network greets

// Value. Who calls, and how.
struct Kind {
  std::string name;
  bool may_be_welcome = false;
  std::function<void(Call&, const HostileTarget&, std::mt19937&)> call;
};

}  // namespace

class HostileCallers::State {
 public:
  State(std::vector<HostileTarget> targets, const std::string& secret, const Plan& plan,
        const std::atomic<std::int64_t>& step, int calls, unsigned seed)
      : targets_(std::move(targets)),
        plan_(plan),
        step_(step),
        calls_(calls),
        right_(targets_[0].worker.job, secret),
        wrong_(targets_[0].worker.job, std::string(secret.size(), 'w')),
        other_(targets_[0].worker.job + "-2", secret) {
    add_strangers();
    add_refused();
    add_mad();
    for (int i = 0; i < kAtOnce; ++i)
      threads_.emplace_back([this, seed, i] { make_calls(seed + static_cast<unsigned>(i)); });
  }

  int done() const { return done_; }
  bool is_over() const { return done_ == calls_; }
  std::vector<std::string> complaints() const { return {complaints_.begin(), complaints_.end()}; }

 private:
  using Random = std::mt19937;
  using Target = HostileTarget;

  void add_text(const std::string& name, const std::string& text) {
    kinds_.push_back({name, false, [text](Call& call, const Target&, Random&) { call.say(text); }});
  }

  void add_tls(const std::string& name, const Tls& tls) {
    kinds_.push_back({name, false, [&tls](Call& call, const Target& target, Random&) {
                        call.speak_tls(tls);
                        call.say(hello_frame(net::to_json(target.worker)));
                      }});
  }

  void add_strangers() {
    const std::string honest = recorded(targets_[0].address, right_, targets_[0].worker);
    add_text("HTTP", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    add_text("a record of TLS, and no more", std::string("\x16\x03\x01\x40\x00\x01", 6));
    add_text("half of what an honest one said", honest.substr(0, honest.size() / 2));
    add_text("all of what an honest one said", honest);
    add_text("a hello in clear", hello_frame(net::to_json(targets_[0].worker)));
    add_text("nothing", "");
    kinds_.push_back({"one byte at a time", false,
                      [honest](Call& call, const Target&, Random&) { call.drip(honest); }});
    for (int i = 0; i < 4; ++i)
      kinds_.push_back({"bytes by chance", false, [](Call& call, const Target&, Random& random) {
                          std::string text(random() % 5000, '\0');
                          for (char& byte : text) byte = static_cast<char>(random());
                          call.say(text);
                        }});
    add_tls("TLS 1.2", tls12_);
    add_tls("TLS 1.3", tls13_);
    add_tls("TLS with a certificate", certified_);
    add_tls("the wrong key", wrong_);
    add_tls("another job's key", other_);
  }

  void add_first_frame(const std::string& name,
                       std::function<std::string(const net::Hello& honest)> text) {
    kinds_.push_back({name, false, [this, text](Call& call, const Target& target, Random&) {
                        call.speak_tls(right_);
                        call.say(text(target.worker));
                      }});
  }

  // They hold the key, but are none of those who train.
  void add_refused() {
    const auto refused = [this](const std::string& name, auto change) {
      add_first_frame(name, [change](net::Hello hello) {
        change(hello);
        return hello_frame(net::to_json(hello));
      });
    };
    refused("another job", [](net::Hello& hello) { hello.job += "-2"; });
    refused("an older attempt", [](net::Hello& hello) { --hello.attempt; });
    refused("a newer attempt", [](net::Hello& hello) { ++hello.attempt; });
    refused("an incarnation below", [](net::Hello& hello) { hello.incarnation = -1; });
    refused("another number of ranks", [](net::Hello& hello) { ++hello.world_size; });
    refused("another model", [](net::Hello& hello) { hello.fingerprint += "0"; });
    refused("a rank too many", [](net::Hello& hello) { hello.rank = hello.world_size; });
    refused("a rank below", [](net::Hello& hello) { hello.rank = -1; });
    refused("a role that there is not", [](net::Hello& hello) { hello.role = "chief"; });
    refused("no role", [](net::Hello& hello) { hello.role = ""; });
    refused("a later protocol",
            [](net::Hello& hello) { hello.oldest_protocol = hello.newest_protocol = 9; });
    for (const std::string& text :
         {hello_frame(""), hello_frame("{}"), hello_frame("[[[["), hello_frame("\xff\xff"),
          hello_frame(std::string(net::kMaxGreeting, '[')),
          bytes_of({.kind = net::FrameKind::kHello, .length = net::kMaxGreeting + 1}),
          ready_frame(), bytes_of({}), std::string(32, '\xff')})
      add_first_frame("no hello", [text](const net::Hello&) { return text; });
  }

  void add_joining(const std::string& name, net::Hello Target::* who,
                   std::function<std::string(const Target&)> text) {
    kinds_.push_back({name, true, [this, who, text](Call& call, const Target& target, Random&) {
                        call.join(right_, target.*who);
                        call.say(text(target));
                      }});
  }

  // They hold the key, and are let in as who they say they are.
  void add_mad() {
    const std::tuple<std::string, net::Hello Target::*, std::vector<Message>> roles[] = {
        {"worker", &Target::worker, {{.what = Say::kAgain}}},
        {"leader",
         &Target::leader,
         {{.what = Say::kAgain},
          {.what = Say::kAskSlots},
          {.what = Say::kTerms, .bytes = sizeof(Terms)}}},
        {"server",
         &Target::server,
         {{.what = Say::kReady},
          {.what = Say::kDecision},
          {.what = Say::kHolds},
          {.what = Say::kStatus}}}};
    for (const auto& [role, who, may_be_said] : roles)
      for (const MadFrame& frame : mad_words(may_be_said))
        add_joining(role + ": " + frame.name, who,
                    [bytes = frame.bytes](const Target&) { return bytes; });
    for (const MadFrame& frame : mad_frames())
      add_joining(frame.name, &Target::worker,
                  [bytes = frame.bytes](const Target&) { return bytes; });
    for (std::size_t i = 0; i < mad_pushes({}).size(); ++i)
      add_joining(
          "a push: " + mad_pushes({})[i].name, &Target::worker,
          [this, i](const Target& target) { return mad_pushes(block_of(target))[i].bytes; });
    add_joining("half a push", &Target::worker, [this](const Target& target) {
      const std::string all = mad_message("", block_of(target)).bytes;
      return all.substr(0, all.size() / 2);
    });
    for (const auto who : {&Target::worker, &Target::leader, &Target::server})
      add_joining("goodbye", who,
                  [](const Target&) { return bytes_of({.kind = net::FrameKind::kGoodbye}); });
  }

  // A block that worker 1 may push to the target now.
  Message block_of(const Target& target) const {
    const Piece piece = plan_.map.of_server(1 - target.server.rank)[1];
    return {.what = Say::kPush,
            .step = step_,
            .part = 1,
            .offset = piece.offset,
            .bytes = piece.length * 4};
  }

  void make_calls(unsigned seed) {
    Random random(seed);
    for (int number; (number = next_++) < calls_; ++done_) {
      const Kind& kind = kinds_[static_cast<std::size_t>(number) % kinds_.size()];
      const Target& target = targets_[random() % targets_.size()];
      Call call(target.address);
      kind.call(call, target, random);
      if (random() % kHungUp != 0) call.hear_all();
      if (call.was_welcome() && !kind.may_be_welcome) complain(kind.name + ": was let in");
      if (call.was_endless()) complain(kind.name + ": was not sent away");
    }
  }

  void complain(const std::string& what) {
    const std::lock_guard lock(mutex_);
    complaints_.insert(what);
  }

  static constexpr unsigned kHungUp = 8;  // one in so many does not wait for the end

  const std::vector<Target> targets_;
  const Plan plan_;
  const std::atomic<std::int64_t>& step_;
  const int calls_;
  const Tls right_, wrong_, other_;
  const Tls tls12_{TLS1_2_VERSION, false};
  const Tls tls13_{TLS1_3_VERSION, false};
  const Tls certified_{TLS1_3_VERSION, true};
  std::vector<Kind> kinds_;
  std::atomic<int> next_ = 0;
  std::atomic<int> done_ = 0;
  std::mutex mutex_;
  std::set<std::string> complaints_;   // guarded by mutex_
  std::vector<std::jthread> threads_;  // last: they use what stands above
};

HostileCallers::HostileCallers(std::vector<HostileTarget> targets, const std::string& secret,
                               const Plan& plan, const std::atomic<std::int64_t>& step, int calls,
                               unsigned seed)
    : state_(std::make_unique<State>(std::move(targets), secret, plan, step, calls, seed)) {}

HostileCallers::~HostileCallers() = default;

bool HostileCallers::are_done() const { return state_->is_over(); }

int HostileCallers::count() const { return state_->done(); }

std::vector<std::string> HostileCallers::complaints() const { return state_->complaints(); }

}  // namespace coxswain::ps
