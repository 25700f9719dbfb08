"""mxnet_peer.py FILE.rec ROUNDS: images a CPU second of MXNet's ImageRecordIter, with one thread."""
import json
import sys
import time

import mxnet

path, rounds = sys.argv[1], int(sys.argv[2])
records = mxnet.io.ImageRecordIter(
    path_imgrec=path, path_imgidx=path.replace(".rec", ".idx"), data_shape=(3, 224, 224), batch_size=20,
    preprocess_threads=1, prefetch_buffer=1, random_resized_crop=True, min_random_area=0.08, max_random_area=1.0,
    min_aspect_ratio=3 / 4, max_aspect_ratio=4 / 3, rand_mirror=True, dtype="uint8", verbose=False)
rates = []
for _ in range(rounds):
    records.reset()
    begin, count = time.process_time(), 0
    for batch in records:
        batch.data[0].wait_to_read()
        count += batch.data[0].shape[0] - batch.pad
    rates.append(count / (time.process_time() - begin))
print(json.dumps({"rates": rates}))
