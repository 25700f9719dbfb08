#include <algorithm>
#include <vector>

#include "trainer/comm/exchange.h"
#include "trainer/comm/sum_parts.h"

namespace coxswain::comm {

namespace {

class SoloCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  // One part is its own sum, wherever it lies; several are added on the host.
  bool reaches(tensor::Place) const override { return true; }
  bool fixed_order() const override { return true; }

  Ticket all_reduce_sum(const ReductionPlan& plan, Reduction reduction) override {
    check_reduction(plan, reduction, 0, 1);
    if (reduction.parts.size() == 1 && reduction.codec == nullptr) return ++last_ticket_;
    std::vector<float*> parts;
    for (const auto& part : on_host(reduction).parts) parts.push_back(part.data());
    sum_parts(plan.adds, parts, reduction.parts[0].size(), parts[0]);
    if (reduction.codec != nullptr) write_and_read(on_host(reduction));
    return ++last_ticket_;
  }

  void wait(Ticket) override {}
  void broadcast(std::span<std::byte>, int) override {}
  void barrier() override {}
  void finish() override {}

 private:
  // As the sum of several ranks is.
  static void write_and_read(const HostReduction& sum) {
    const auto size = std::ssize(sum.parts[0]);
    for (std::int64_t at = 0; at < size; at += kOwnerBlock) {
      const auto block = sum.parts[0].subspan(
          static_cast<std::size_t>(at), static_cast<std::size_t>(std::min(kOwnerBlock, size - at)));
      const std::int64_t offset = sum.offset + at;
      sum.codec->encode(offset, block);
      sum.codec->decode(offset, sum.codec->bytes_of(offset, std::ssize(block)), block);
    }
  }

  Ticket last_ticket_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_solo_communicator() {
  return std::make_unique<SoloCommunicator>();
}

}  // namespace coxswain::comm
