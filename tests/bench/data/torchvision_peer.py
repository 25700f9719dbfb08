"""torchvision_peer.py DIR ROUNDS: images a CPU second of torchvision's loader, in this thread."""
import json
import sys
import time

import torch
from torchvision import datasets, transforms

torch.set_num_threads(1)
steps = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
                            transforms.PILToTensor()])
images = datasets.ImageFolder(f"{sys.argv[1]}/train", steps)
rates = []
for _ in range(int(sys.argv[2])):
    begin = time.process_time()
    for _batch in torch.utils.data.DataLoader(images, batch_size=64, num_workers=0):
        pass
    rates.append(len(images) / (time.process_time() - begin))
print(json.dumps({"rates": rates}))
