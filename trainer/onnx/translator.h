#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/onnx/constants.h"
#include "trainer/onnx/network.h"
#include "trainer/onnx/node_attributes.h"

namespace coxswain::onnx {

constexpr auto kInit = graph::WeightInit::kHeNormalIn;  // of a last layer that begins anew

// What a Transpose does to images: channels last become first, and the reverse.
inline const std::vector<std::int64_t> kToTheFront{0, 3, 1, 2};
inline const std::vector<std::int64_t> kToTheEnd{0, 2, 3, 1};

// Value. A square window over rows and columns.
struct Window {
  int kernel = 1;
  int stride = 1;
  int pad = 0;        // before the first row and column
  int pad_extra = 0;  // so many more after the last
};

// Builds a graph, node by node. Refers to the model, which must outlive it.
class Translator {
 public:
  // `input`: without one the model's own.
  Translator(const Model& model, std::optional<tensor::Shape> input);

  void add(const Node& node);
  Translation finish(std::optional<std::int64_t> classes, float label_smoothing);

 private:
  // What a value is of the graph's node that it was made of. Some operations are several in ONNX:
  // what is known of one so far is a form, which only its next part can read.
  enum class Form {
    kWhole,
    kScaled,       // times `factor`
    kErf,          // erf(x / sqrt(2))
    kOnePlusErf,   // and 1 more
    kTwiceGelu,    // times x
    kSigmoid,      // an operation of its own, unless x is multiplied by it
    kHardSigmoid,  // x / 6 + 0.5 between 0 and 1; likewise
    kPlusThree,    // x + 3
    kUpToSix,      // that between 0 and 6: 6 times the hard sigmoid
    kSixTimes,     // 6 times hard-swish
    kPadded,       // with zeros around, which the window that reads them takes for its own
    kOfRows,       // (N, C, 1) of (N, C), on the way to (N, C, 1, 1)
    kEnd,          // softmax, which the loss has
  };
  // `flat`: (N, C * H * W), whatever the shape of the graph's node, which goes on as it was until
  // an operation needs columns. `last`: (N, H, W, C), as Keras has them, or flattened from that.
  struct Value {
    int node = 0;
    bool flat = false;
    Form form = Form::kWhole;
    double factor = 1;
    bool last = false;
    int pad = 0;  // of kPadded: zeros before the first row and column
    int pad_extra = 0;
  };
  using Rule = void (Translator::*)(const Node& node);
  static const std::map<std::string_view, Rule>& rules();

  void conv(const Node& node);
  void batch_norm(const Node& node);
  void relu(const Node& node);
  void tanh(const Node& node);
  void gelu(const Node& node);
  void sigmoid(const Node& node);
  void hard_sigmoid(const Node& node);
  void hard_swish(const Node& node);
  void clip(const Node& node);
  void concat(const Node& node);
  void max_pool(const Node& node);
  void average_pool(const Node& node);
  void global_average_pool(const Node& node);
  void global_max_pool(const Node& node);
  void reduce(const Node& node);
  int over_rows_and_columns(const Node& node, Value value, bool maximum);
  void sum(const Node& node);
  void multiply(const Node& node);
  void divide(const Node& node);
  void erf(const Node& node);
  void gemm(const Node& node);
  void matmul(const Node& node);
  void flatten(const Node& node);
  void reshape(const Node& node);
  void transpose(const Node& node);
  void pad(const Node& node);
  void slice(const Node& node);
  void squeeze(const Node& node);
  void unsqueeze(const Node& node);
  void shape(const Node& node);
  void dropout(const Node& node);
  void identity(const Node& node);
  void softmax(const Node& node);

  // Of a node's inputs. Each refuses one that is not what is asked for.
  const std::string& input_name(const Node& node, std::size_t index) const;
  bool has_input(const Node& node, std::size_t index) const;
  bool is_value(const Node& node, std::size_t index) const;
  Value any_value(const Node& node, std::size_t index) const;
  Value of_any_order(const Node& node, std::size_t index);  // whole, its channels first or last
  Value value(const Node& node, std::size_t index);         // whole, its channels first
  bool is_last(Value value);
  Value image(const Node& node, std::size_t index);  // (N, C, H, W)
  Value columns(const Node& node, Value value);      // of one row and column
  const Tensor& weight(const Node& node, std::size_t index, std::size_t dims) const;
  static std::vector<std::int64_t> rows_and_columns(Value image);
  std::vector<std::int64_t> axes_of(const Node& node, const NodeAttributes& attributes) const;

  Value padded_image(const Node& node, const NodeAttributes& attributes);
  Window window_of(const Node& node, const NodeAttributes& attributes, Value value, int kernel);
  void pad_window(const Node& node, const NodeAttributes& attributes, Value value, Window& window);
  void round_up(const Node& node, const NodeAttributes& attributes, Value value, Window& window);
  bool gives(const Window& window, Value value, std::int64_t rows, std::int64_t columns);
  int place_window(const Node& node, int built, const Window& window);
  int kernel_of(const Node& node, const NodeAttributes& attributes) const;
  int equal(const Node& node, std::string_view what, const std::vector<std::int64_t>& values,
            std::size_t count) const;

  void dense(const Node& node, Value x, bool transposed, bool bias);
  graph::Node* layer_alone(const Node& node, std::size_t constant);
  const Tensor* of_each_channel(const Node& node, std::size_t constant);
  bool add_bias(const Node& node);
  bool scale_layer(const Node& node, std::size_t constant);
  bool scale_channels(const Node& node, std::size_t constant);
  bool multiply_self(const Node& node, Value a, Value b);
  void multiply_both(const Node& node);
  bool scale_part(const Node& node, Value x, double factor);
  std::optional<float> bound(const Node& node, const NodeAttributes& attributes,
                             std::string_view name, std::size_t index) const;
  bool multiply_gelu(const Node& node, Value a, Value b);
  std::string weighted_name(const Node& node, std::string_view stem,
                            std::initializer_list<std::string_view> ends);
  std::string unweighted_name(const Node& node, std::string_view stem);
  std::string fresh_name(std::string name);
  void take(const Node& node, std::size_t input, std::string parameter);
  void take_source(const Node& node, Source source);
  int place(const Node& node, int built);  // gives it its shape
  void give(const Node& node, Value value);
  const tensor::Shape& shape_of(Value value) { return builder_.node(value.node).shape; }

  const Model& model_;
  Constants constants_;
  bool has_channels_last_;  // the images
  graph::Builder builder_;
  std::int64_t batch_ = -1;
  bool is_own_input_;
  std::map<std::string, Value> values_;
  std::map<std::string, int> readers_;
  std::set<std::string> names_{"input", "loss"};
  std::map<std::string, int> used_;
  std::set<const Tensor*> taken_;
  std::vector<Source> sources_;
};

}  // namespace coxswain::onnx
