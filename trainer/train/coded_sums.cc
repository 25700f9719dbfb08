#include "trainer/train/coded_sums.h"

#include <chrono>

#include "trainer/backend/control.h"
#include "trainer/comm/reduction.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::train {

namespace {

using Clock = std::chrono::steady_clock;

// Adds what a call takes, if it is to be measured.
template <typename Call>
void timed(bool is_measured, double& seconds, const Call& call) {
  if (!is_measured) return call();
  const auto start = Clock::now();
  call();
  seconds += std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

CodedSums::CodedSums(const TrainOptions& options, const backend::Parameters& parameters)
    : parameters_(parameters),
      encoder_(parameters.layout(), comm::kOwnerBlock, options.codec),
      codec_(*this),
      judge_(options.codec, !options.fixed_order) {
  host_span(parameters.gradients());
}

std::span<std::byte> CodedSums::Codec::bytes_of(std::int64_t offset, std::int64_t length) {
  return sums_.encoder_.bytes_of(offset, length);
}

void CodedSums::Codec::encode(std::int64_t offset, std::span<const float> block) {
  timed(sums_.is_measured_, sums_.measured_.encode_seconds,
        [&] { sums_.encoder_.encode(offset, block); });
}

void CodedSums::Codec::decode(std::int64_t offset, std::span<const std::byte> bytes,
                              std::span<float> block) {
  timed(sums_.is_measured_, sums_.measured_.decode_seconds,
        [&] { sums_.encoder_.decode(offset, bytes, block); });
}

void CodedSums::measured_network(double seconds_per_byte) {
  measured_.network_bytes = encoder_.plain_bytes();
  measured_.network_seconds = seconds_per_byte * static_cast<double>(encoder_.plain_bytes());
}

std::string CodedSums::finish_step(std::int64_t step, bool leads) {
  const auto control = host_span(parameters_.gradients(parameters_.layout().control()));
  const backend::ControlSums sums = backend::read_control(control);
  if (is_measured_) {
    measured_.steps += 1;
    measured_.bytes_spared += encoder_.plain_bytes() - encoder_.bytes();
  }
  encoder_.finish_step(sums.updated);
  if (sums.push_exactly) encoder_.push_exactly();
  if (!leads || !encoder_.encodes()) return "";
  const PushJudge::Opinion opinion = judge_.after(step, evidence());
  is_measured_ = judge_.measures();
  asks_for_exact_ = opinion.leaves;
  return opinion.warning;
}

PushJudge::Evidence CodedSums::evidence() {
  const tensor::ParameterLayout& layout = parameters_.layout();
  return {
      .measured = [this] { return measured_; },
      .residuals = [this, &layout] { return norm_of(layout, encoder_.residuals()); },
      .gradients = [this, &layout] { return norm_of(layout, host_span(parameters_.gradients())); }};
}

}  // namespace coxswain::train
