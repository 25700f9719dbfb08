#!/usr/bin/env python3
"""make.py: small networks of Keras as tf2onnx writes them, channels last, and losses.txt, what Keras makes of each: the
loss in evaluation, and in training those of six steps of SGD. In a file a batch norm is part of the layer before it.
Made with keras 3.15.1, tensorflow 2.21.0, tf2onnx 1.17.0, onnx 1.23.2."""
import pathlib

import keras
import numpy
import tensorflow
import tf2onnx
from keras import layers

HERE = pathlib.Path(__file__).parent
ROWS, CLASSES, RATE = 4, 5, 0.1


def grey():
    return keras.Sequential([
        layers.Input((8, 8, 1)), layers.Conv2D(6, 3, activation="relu"), layers.MaxPooling2D(2), layers.Flatten(),
        layers.Dropout(0.0), layers.Dense(7, activation="relu"), layers.Dense(CLASSES, activation="softmax")])


def colour():
    image = layers.Input((8, 8, 3))
    x = layers.Activation("relu6")(layers.BatchNormalization()(layers.Conv2D(6, 3, padding="same")(image)))
    y = layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x))
    x = layers.Concatenate()([layers.Add()([x, y]), layers.Activation("swish")(x)])
    x = layers.Flatten()(layers.AveragePooling2D(2)(x))
    return keras.Model(image, layers.Dense(CLASSES, activation="softmax")(x))


def pooled():
    image = layers.Input((8, 8, 3))
    x = layers.Conv2D(6, 3, strides=1, activation="relu")(image)
    return keras.Model(image, layers.Dense(CLASSES, activation="softmax")(layers.GlobalAveragePooling2D()(x)))


def tutorial():
    """Norms after activations, which are no part of a layer."""
    return keras.Sequential([
        layers.Input((8, 8, 3)), layers.Conv2D(6, 3, activation="relu"), layers.BatchNormalization(),
        layers.MaxPooling2D(2), layers.Flatten(), layers.Dense(7, activation="relu"), layers.BatchNormalization(),
        layers.Dense(CLASSES)], name="tutorial")


def padded():
    return keras.Sequential([
        layers.Input((8, 8, 3)), layers.ZeroPadding2D(1), layers.DepthwiseConv2D(3, activation="relu"),
        layers.ZeroPadding2D(1), layers.SeparableConv2D(5, 3, strides=2), layers.GlobalAveragePooling2D(),
        layers.Dense(CLASSES, activation="softmax")])


def same():
    """Windows whose padding is not the same on both sides, a gate for each channel, a greatest of all."""
    image = layers.Input((8, 8, 3))
    x = layers.Conv2D(6, 3, strides=2, padding="same", activation="hard_swish")(image)
    gate = layers.Conv2D(3, 1, activation="relu")(layers.GlobalMaxPooling2D(keepdims=True)(x))
    x = layers.Multiply()([x, layers.Conv2D(6, 1, activation="hard_sigmoid")(gate)])
    x = layers.DepthwiseConv2D(5, strides=2, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(3, strides=1)(layers.ZeroPadding2D(1)(x))
    x = layers.MaxPooling2D(2, strides=1, padding="same")(x)
    return keras.Model(image, layers.Dense(CLASSES, activation="softmax")(layers.Flatten()(x)))


def dense():
    """Nothing in the file says that its images have their channels last, but their shape."""
    return keras.Sequential([
        layers.Input((8, 8, 3)), layers.Flatten(), layers.Dense(7, activation="relu"),
        layers.Dense(CLASSES, activation="softmax")])


def images(channels):
    pixel = numpy.arange(64).reshape(1, 8, 8, 1)
    channel = numpy.arange(channels).reshape(1, 1, 1, channels)
    sample = numpy.arange(ROWS).reshape(ROWS, 1, 1, 1)
    return ((167 * pixel + 31 * channel + 89 * sample) % 256).astype("float32") / 255


def loss_of(net, x):
    return tensorflow.reduce_mean(keras.losses.sparse_categorical_crossentropy(
        numpy.arange(ROWS) % CLASSES, net(x, training=False), from_logits=net.name == "tutorial"))


def training(net, x):
    losses = []
    for _ in range(6):
        with tensorflow.GradientTape() as tape:
            loss = loss_of(net, x)
        losses.append(float(loss))
        variables = net.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(RATE * gradient)
    return losses


def with_values_of_their_own(net):
    """As after training: biases and statistics that are not what they begin as."""
    values = numpy.random.default_rng(3)
    for variable in net.variables:
        if variable.path.split("/")[-1] in ("bias", "beta", "moving_mean"):
            variable.assign(values.uniform(-0.2, 0.2, variable.shape))
        elif variable.path.split("/")[-1] in ("gamma", "moving_variance"):
            variable.assign(values.uniform(0.5, 1.5, variable.shape))
    return net


def main():
    lines = []
    for build in (grey, colour, pooled, tutorial, padded, same, dense):
        keras.utils.set_random_seed(3)
        net, name = with_values_of_their_own(build()), build.__name__
        x = images(net.input_shape[-1])
        spec = [tensorflow.TensorSpec((None, *net.input_shape[1:]), tensorflow.float32, name="input")]
        call = tensorflow.function(lambda batch, net=net: net(batch, training=False))
        tf2onnx.convert.from_function(call, input_signature=spec,
                                        opset=18 if build is padded else 17, output_path=str(HERE / f"{name}.onnx"))
        lines.append(f"keras/{name} evaluation {float(loss_of(net, x)):.7f}")
        if build not in (colour, tutorial):  # whose norms are none in the file
            lines.append(f"keras/{name} training " + " ".join(f"{loss:.7f}" for loss in training(net, x)))
    (HERE / "losses.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
