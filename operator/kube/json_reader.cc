#include "operator/kube/json_reader.h"

#include <algorithm>
#include <string>

#include "trainer/contract/worker/json_fields.h"

namespace coxswain::kube {

namespace {

using OnItem = std::function<void(Json item)>;

// A member that no object of the API has: its own are words of letters and digits.
constexpr const char* kTooDeep = "coxswain.dev/too-deep";

constexpr std::size_t kObject = 1;    // how deep an object lies: by itself,
constexpr std::size_t kEnvelope = 2;  // in an envelope,
constexpr std::size_t kListItem = 3;  // in the list of a list

// Makes values of what the parser comes upon. What is open: the text's object, a member of it that
// is an object or a list, and so on to the innermost.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(std::size_t object_depth, const LeftOut& left_out, const OnItem& on_item)
      : object_depth_(object_depth), left_out_(left_out), on_item_(on_item) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

  bool key(std::string& name) override {
    if (passing_over_ > 0) return true;
    passes_over_next_ = open_.size() == object_depth_ + 1 &&
                        std::ranges::any_of(left_out_, [&](const auto& member) {
                          return member.first == open_.back().key && member.second == name;
                        });
    key_ = std::move(name);
    return true;
  }

 private:
  struct Container {
    Json* value;      // in its parent; stays where it is while it is open
    std::string key;  // in its parent; empty: in a list
  };

  // Where a value belongs that comes now.
  template <class T>
  Json& place(T&& value) {
    if (open_.empty()) return root_ = Json(std::forward<T>(value));
    Json& parent = *open_.back().value;
    if (parent.is_object())
      return parent.get_ref<Json::object_t&>()[key_] = Json(std::forward<T>(value));
    return parent.get_ref<Json::array_t&>().emplace_back(std::forward<T>(value));
  }

  template <class T>
  bool add(T&& value) {
    if (passing_over_ > 0) return true;
    if (std::exchange(passes_over_next_, false)) return true;
    place(std::forward<T>(value));
    return true;
  }

  bool open(Json container) {
    if (passing_over_ > 0 || std::exchange(passes_over_next_, false)) {
      ++passing_over_;
      return true;
    }
    if (open_.size() == object_depth_ - 1 + kMaxDepth) {
      if (!mark_too_deep()) return false;
      ++passing_over_;
      return true;
    }
    const bool in_object = !open_.empty() && open_.back().value->is_object();
    Json& value = place(std::move(container));
    open_.push_back({&value, in_object ? key_ : ""});
    return true;
  }

  // False: what is nested too deep is no part of an object.
  bool mark_too_deep() {
    Json& object = *open_[object_depth_ - 1].value;
    if (!object.is_object()) return false;
    const std::string inner = open_[object_depth_ + 1].key;
    object[kTooDeep] = open_[object_depth_].key + (inner.empty() ? "" : "." + inner);
    return true;
  }

  bool close() {
    if (passing_over_ > 0) {
      --passing_over_;
      return true;
    }
    const bool is_item = on_item_ && open_.size() == kListItem && open_[1].key == "items" &&
                         open_[1].value->is_array() && open_[2].value->is_object();
    open_.pop_back();
    if (!is_item) return true;
    auto& items = open_.back().value->get_ref<Json::array_t&>();
    Json item = std::move(items.back());
    items.pop_back();
    on_item_(std::move(item));
    return true;
  }

  const std::size_t object_depth_;
  const LeftOut& left_out_;
  const OnItem& on_item_;
  Json root_;
  std::vector<Container> open_;
  std::string key_;                // of the value that comes next, in an object
  bool passes_over_next_ = false;  // that value is left out
  std::size_t passing_over_ = 0;   // what is open within a value that is left out
};

std::optional<Json> parse(std::string_view text, std::size_t object_depth, const LeftOut& left_out,
                          const OnItem& on_item = {}) {
  Builder builder(object_depth, left_out, on_item);
  if (!Json::sax_parse(text, &builder)) return std::nullopt;
  Json object = builder.take();
  if (!object.is_object()) return std::nullopt;
  return object;
}

}  // namespace

std::optional<Json> parse_object(std::string_view text, const LeftOut& left_out) {
  return parse(text, kObject, left_out);
}

std::optional<Json> parse_envelope(std::string_view text, const LeftOut& left_out) {
  return parse(text, kEnvelope, left_out);
}

std::optional<Json> parse_list(std::string_view text, const LeftOut& left_out,
                               const std::function<void(Json item)>& on_item) {
  return parse(text, kListItem, left_out, on_item);
}

std::optional<std::string> too_deep(const Json& object) {
  std::string member = contract::text_at(object, kTooDeep);
  return member.empty() ? std::nullopt : std::optional(std::move(member));
}

Json without_mark(Json object) {
  object.erase(kTooDeep);
  return object;
}

}  // namespace coxswain::kube
