#!/usr/bin/env python3
"""make.py: pictures of every kind beside this file, and NAME.ppm, what Pillow's convert("RGB") makes of each. With
`resample PYTHON`, PYTHON one that can import mxnet: what Pillow (antialias) and MXNet's OpenCV (bilinear) make of
photo.png at other sizes. Needs Pillow, numpy and OpenCV; the tests need none."""
import pathlib
import struct
import subprocess
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps

HERE = pathlib.Path(__file__).parent
SIZES = [(16, 12), (23, 31), (60, 50), (37, 10), (5, 3)]  # width, height
BOX = (4, 3, 24, 22)  # left, top, right, bottom


def photo(width, height):
    """Smooth, with noise: as photographs are."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(7).integers(-20, 21, (height, width, 3))
    waves = np.stack([128 + 90 * np.sin(x / 5), 128 + 90 * np.cos(y / 4), 128 + 90 * np.sin((x + y) / 7)], -1)
    return np.clip(waves + noise, 0, 255).astype(np.uint8)


def png(name, width, height, depth, colour, rows, interlace=0):
    """What Pillow does not write."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    (HERE / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b""))


def save_ppm(name, image):
    image.save(HERE / f"{name}.ppm")


def formats():
    pixels = photo(21, 13)
    colour = Image.fromarray(pixels)
    grey = colour.convert("L")
    alpha = Image.fromarray((pixels[..., 0] // 2).astype(np.uint8))
    with_alpha = colour.copy()
    with_alpha.putalpha(alpha)
    grey_alpha = Image.merge("LA", (grey, alpha))
    palette = colour.quantize(16)
    exif = Image.Exif()
    exif[0x0112] = 6
    made = {
        "rgb.png": (colour, {}), "grey.png": (grey, {}), "rgba.png": (with_alpha, {}), "grey-alpha.png": (grey_alpha, {}),
        "palette.png": (palette, {}), "palette-see-through.png": (palette, {"transparency": 3}),
        "bits.png": (grey.convert("1"), {}), "two-bits.png": (colour.quantize(4), {"bits": 2}),
        "colour.jpg": (colour, {"quality": 90}), "full-colour.jpg": (colour, {"quality": 90, "subsampling": 0}),
        "grey.jpg": (grey, {"quality": 90}), "inks.jpg": (colour.convert("CMYK"), {"quality": 90}),
        "progressive.jpg": (colour, {"quality": 90, "progressive": True}),
        "turned.jpg": (colour, {"quality": 90, "exif": exif}),
    }
    for name, (image, options) in made.items():
        image.save(HERE / name, **options)
        save_ppm(name, Image.open(HERE / name).convert("RGB"))
    upright = ImageOps.exif_transpose(Image.open(HERE / "turned.jpg"))
    save_ppm("turned.jpg.upright", upright.convert("RGB"))
    save_ppm("colour.jpg.grey", Image.open(HERE / "colour.jpg").convert("L").convert("RGB"))
    wide = pixels.astype(np.uint16) * 251 + 77  # no multiples of 257
    png("deep.png", 21, 13, 16, 2, [row.astype(">u2").tobytes() for row in wide])
    save_ppm("deep.png", Image.fromarray(((wide.astype(np.uint32) + 128) // 257).astype(np.uint8)))
    png("deep-grey.png", 21, 13, 16, 0, [row.astype(">u2").tobytes() for row in wide[..., 0]])
    save_ppm("deep-grey.png", Image.fromarray(((wide[..., 0].astype(np.uint32) + 128) // 257).astype(np.uint8)).convert("RGB"))


def resampled():
    colour = Image.fromarray(photo(37, 29))
    colour.save(HERE / "photo.png")
    for width, height in SIZES:
        save_ppm(f"antialias-{width}x{height}", colour.resize((width, height), Image.BILINEAR))
    save_ppm("antialias-box-15x15", colour.crop(BOX).resize((15, 15), Image.BILINEAR))
    save_ppm("antialias-box-40x40", colour.crop(BOX).resize((40, 40), Image.BILINEAR))


def coloured():
    """By Pillow's ImageEnhance, as torchvision; hsl and affine by OpenCV, as MXNet."""
    import cv2
    from PIL import ImageEnhance
    colour = Image.open(HERE / "photo.png").convert("RGB")
    for name, change in (("brightness", ImageEnhance.Brightness), ("contrast", ImageEnhance.Contrast),
                         ("saturation", ImageEnhance.Color)):
        for factor in (0.6, 1.375):
            save_ppm(f"{name}-{factor}", change(colour).enhance(factor))
    hls = cv2.cvtColor(np.asarray(colour), cv2.COLOR_RGB2HLS).astype(int)
    hls = np.clip(hls + [20, 15, -30], 0, [180, 255, 255]).astype(np.uint8)
    save_ppm("hsl-20--30-15", Image.fromarray(cv2.cvtColor(hls, cv2.COLOR_HLS2RGB)))
    # image_aug_default.cc: rotate 17, shear 0.2, scale 1, ratio 1.1, fill 255
    height, width = 29, 37
    a, b, ratio, shear, scale = np.cos(17 / 180 * np.pi), np.sin(17 / 180 * np.pi), 1.1, 0.2, 1.0
    hs = 2 * scale / (1 + ratio)
    ws = ratio * hs
    m = np.array([[hs * a - shear * b * ws, hs * b + shear * a * ws, 0], [-b * ws, a * ws, 0]], np.float32)
    m[0, 2] = (scale * width - m[0, 0] * width - m[0, 1] * height) / 2
    m[1, 2] = (scale * height - m[1, 0] * width - m[1, 1] * height) / 2
    warped = cv2.warpAffine(np.asarray(colour), m, (width, height), flags=cv2.INTER_LINEAR,
                            borderMode=cv2.BORDER_CONSTANT, borderValue=(255, 255, 255))
    save_ppm("affine-17", Image.fromarray(warped))


BY_MXNET = """
import sys, numpy, mxnet as mx
def save(path, image):
    image = image.asnumpy()
    open(path, "wb").write(b"P6\\n%d %d\\n255\\n" % (image.shape[1], image.shape[0]) + image.tobytes())
here, sizes, box = sys.argv[1], eval(sys.argv[2]), eval(sys.argv[3])
photo = mx.image.imread(here + "/photo.png")
for width, height in sizes:
    save(f"{here}/bilinear-{width}x{height}.ppm", mx.image.imresize(photo, width, height, interp=1))
for side in (15, 40):
    left, top, right, bottom = box
    part = mx.image.fixed_crop(photo, left, top, right - left, bottom - top, (side, side), interp=1)
    save(f"{here}/bilinear-box-{side}x{side}.ppm", part)
"""

if __name__ == "__main__":
    if sys.argv[1:2] == ["resample"]:
        resampled()
        coloured()
        subprocess.run([sys.argv[2], "-c", BY_MXNET, str(HERE), str(SIZES), str(BOX)], check=True)
    else:
        formats()
