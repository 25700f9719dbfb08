#include "operator/kube/http_transport_bodies.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace coxswain::kube {

namespace {

using Base = Concurrency::streams::details::streambuf_state_manager<std::uint8_t>;

// What both directions have in common: neither seeks, nor is read or written by character.
class OneWayBuffer : public Base {
 public:
  using Base::Base;

  bool can_seek() const override { return false; }
  bool has_size() const override { return false; }
  std::size_t buffer_size(std::ios_base::openmode) const override { return 0; }
  void set_buffer_size(std::size_t, std::ios_base::openmode) override {}
  std::size_t in_avail() const override { return 0; }
  pos_type getpos(std::ios_base::openmode) const override { return -1; }
  pos_type seekpos(pos_type, std::ios_base::openmode) override { return -1; }
  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
    return -1;
  }
  bool acquire(std::uint8_t*&, std::size_t&) override { return false; }
  void release(std::uint8_t*, std::size_t) override {}

 protected:
  pplx::task<std::size_t> _putn(const std::uint8_t*, std::size_t) override { return no_bytes(); }
  pplx::task<std::size_t> _getn(std::uint8_t*, std::size_t) override { return no_bytes(); }
  pplx::task<int_type> _putc(std::uint8_t) override { return no_character(); }
  pplx::task<int_type> _bumpc() override { return no_character(); }
  pplx::task<int_type> _getc() override { return no_character(); }
  pplx::task<int_type> _nextc() override { return no_character(); }
  pplx::task<int_type> _ungetc() override { return no_character(); }
  int_type _sbumpc() override { return traits::eof(); }
  int_type _sgetc() override { return traits::eof(); }
  std::size_t _scopy(std::uint8_t*, std::size_t) override { return 0; }
  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }
  std::uint8_t* _alloc(std::size_t) override { return nullptr; }
  void _commit(std::size_t) override {}

 private:
  static pplx::task<int_type> no_character() {
    return pplx::task_from_result<int_type>(traits::eof());
  }
  static pplx::task<std::size_t> no_bytes() { return pplx::task_from_result<std::size_t>(0); }
};

class BodySource : public OneWayBuffer {
 public:
  explicit BodySource(std::string body) : OneWayBuffer(std::ios_base::in), body_(std::move(body)) {}

 protected:
  pplx::task<std::size_t> _getn(std::uint8_t* target, std::size_t count) override {
    const std::size_t size = std::min(count, body_.size() - position_);
    std::copy_n(body_.data() + position_, size, target);
    position_ += size;
    return pplx::task_from_result(size);
  }

 private:
  const std::string body_;
  std::size_t position_ = 0;
};

class BodySink : public OneWayBuffer {
 public:
  explicit BodySink(std::shared_ptr<Exchange> exchange)
      : OneWayBuffer(std::ios_base::out), exchange_(std::move(exchange)) {}

 protected:
  pplx::task<std::size_t> _putn(const std::uint8_t* bytes, std::size_t count) override {
    const pplx::task_completion_event<std::size_t> taken;
    const auto wanted =
        exchange_->add({reinterpret_cast<const char*>(bytes), count},  // the library's bytes
                       [taken, count] { taken.set(count); });
    switch (wanted) {
      case Exchange::Wanted::kMore:
        return pplx::task_from_result(count);
      case Exchange::Wanted::kLater:
        return pplx::create_task(taken);
      case Exchange::Wanted::kNothing:
        break;
    }
    return pplx::task_from_exception<std::size_t>(std::runtime_error("nobody reads the answer"));
  }

 private:
  const std::shared_ptr<Exchange> exchange_;
};

}  // namespace

BodyBuffer make_body_source(std::string body) {
  return BodyBuffer(std::make_shared<BodySource>(std::move(body)));
}

BodyBuffer make_body_sink(std::shared_ptr<Exchange> exchange) {
  return BodyBuffer(std::make_shared<BodySink>(std::move(exchange)));
}

}  // namespace coxswain::kube
