#pragma once

#include <memory>
#include <optional>

#include "trainer/ps/copy.h"
#include "trainer/ps/server.h"

namespace coxswain::ps {

// A server that holds weights and slots, whichever way they are trained. The first step waits for
// worker 0 to say what is trained and from where.
//
// Of several servers each holds a Copy of what the one before it holds. One that comes back empty
// gets its own from the next, and the copy from the one before; what it was told meanwhile waits.
// It gives up (71) when the next one has none: two neighbours were lost at once, or the only
// server.
class CopiedServer : public Server {
 public:
  CopiedServer(ServerOptions server, int num_slots)
      : Server(std::move(server)),
        num_slots_(num_slots),
        source_(incarnation() == 0 ? Source::kWorker : Source::kUnknown) {}

  bool has_begun() const override { return floats_missing_ == 0; }
  // One server may be lost now without anything that it held: if not this one, then another.
  bool is_safe() const { return has_begun() && copy_ && !coming_; }

 protected:
  // The machine that trains; its shard is what this server holds. Nullptr: there is none yet.
  virtual PushTaker* machine() = 0;
  virtual void make_machine(const Plan& plan) = 0;  // in the place of the one there is
  // Its shard is as of `position`; `also`: what a Copy knew besides, empty if it is worker 0's.
  virtual void start_machine(const Beginning& position, std::span<const std::byte> also) = 0;
  virtual Beginning position() = 0;  // how far it is
  virtual Bytes also() = 0;          // see Copy
  virtual std::unique_ptr<Copy> make_copy(const Plan& plan, int server,
                                          const Beginning& beginning) = 0;
  // The next server's is as after so many steps; nullopt: it is not to be had. Between the two the
  // shard stays as it is: it is on its way.
  virtual void copy_holds(std::optional<std::int64_t> steps) = 0;
  virtual void may_tell() {}                        // see may_tell_begun()
  virtual void server_has_begun(int /*server*/) {}  // it says so, once more perhaps

  // Of what a worker or a server says of beginnings, states and copies: as place_of and take.
  std::optional<std::span<std::byte>> place_of_common(Peer& peer, const Message& message);
  void take_common(Peer& peer, const Message& message);
  void server_joined(int server) override;
  void server_left(int server) override;

  const Beginning& beginning() const { return *beginning_; }
  // What it held is with the next server, or nobody knows where.
  bool is_coming_back() const { return source_ != Source::kWorker && !has_begun(); }
  // It has begun, and what it holds outlives it.
  bool may_tell_begun() const { return has_begun() && (source_ == Source::kNext || was_copied_); }
  bool is_copied_now() const { return num_servers() == 1 || is_copied_; }
  Copy* copy_of_previous() {
    return copy_.get();
  }  // of what the one before holds; nullptr: none is whole
  int next() const { return (index() + 1) % num_servers(); }
  int previous() const { return (index() + num_servers() - 1) % num_servers(); }

 private:
  // Where its state comes from.
  enum class Source { kUnknown, kWorker, kNext };

  std::optional<std::span<std::byte>> place_from_server(Peer& peer, const Message& message);
  void take_from_server(Peer& peer, const Message& message);
  std::span<std::byte> place_of_state(Peer& peer, const Message& message);
  bool is_mine(const Message& message);
  void begin(const Beginning& beginning);
  void take_state(const Message& message);
  void start();
  void take_holds(std::int64_t steps);
  void say_begun();

  void send_status(int server);
  void take_status(int server, int status);
  void find_source(int status_of_next);
  void send_copy();
  void restore_previous();
  void send_state(int server, Shard& shard);

  const int num_slots_;
  Source source_;
  std::optional<Beginning> beginning_;
  Bytes also_;                        // as restored
  std::int64_t floats_missing_ = -1;  // of its state; -1: nothing is known
  bool is_copied_ = false;            // by the next server, now
  bool was_copied_ = false;
  bool owes_begun_ = false;  // to worker 0

  std::unique_ptr<Copy> copy_;
  std::unique_ptr<Copy> coming_;  // a newer one, of which not all is here
  // Sent to the next; to the one before.
  Numbers told_beginning_, told_restore_;
  Bytes told_also_, told_restored_;
};

}  // namespace coxswain::ps
