"""The image networks in PyTorch, with torchvision's structure and names.

Written out so that neither the oracle nor the benchmark needs torchvision; they
run on PyTorch 1.13 and later. `width` scales every channel count of ResNet and
VGG (64 is the published network) and `hidden` is the width of VGG's classifier,
so that the oracle can use small copies.
"""
import torch
from torch import nn


# ---------------------------------------------------------------- ResNet

def conv3x3(c_in, c_out, stride=1):
    return nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, c_in, c, stride, downsample):
        super().__init__()
        self.conv1 = conv3x3(c_in, c, stride)
        self.bn1 = nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(c, c)
        self.bn2 = nn.BatchNorm2d(c)
        self.downsample = downsample

    def forward(self, x):
        skip = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + skip)


class Bottleneck(nn.Module):
    """Version 1.5: the stride is in the 3x3 convolution."""
    expansion = 4

    def __init__(self, c_in, c, stride, downsample):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = conv3x3(c, c, stride)
        self.bn2 = nn.BatchNorm2d(c)
        self.conv3 = nn.Conv2d(c, 4 * c, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * c)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        skip = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + skip)


class ResNet(nn.Module):
    def __init__(self, block, counts, classes=1000, width=64):
        super().__init__()
        self.c_in = width
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self.stage(block, width, counts[0], 1)
        self.layer2 = self.stage(block, 2 * width, counts[1], 2)
        self.layer3 = self.stage(block, 4 * width, counts[2], 2)
        self.layer4 = self.stage(block, 8 * width, counts[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width * block.expansion, classes)

    def stage(self, block, c, count, stride):
        c_out = c * block.expansion
        downsample = None
        if stride != 1 or self.c_in != c_out:
            downsample = nn.Sequential(
                nn.Conv2d(self.c_in, c_out, 1, stride, bias=False),
                nn.BatchNorm2d(c_out))
        blocks = [block(self.c_in, c, stride, downsample)]
        self.c_in = c_out
        blocks += [block(c_out, c, 1, None) for _ in range(count - 1)]
        return nn.Sequential(*blocks)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def resnet18(**options):
    return ResNet(BasicBlock, [2, 2, 2, 2], **options)


def resnet50(**options):
    return ResNet(Bottleneck, [3, 4, 6, 3], **options)


# ---------------------------------------------------------------- VGG

VGG11 = [1, "M", 2, "M", 4, 4, "M", 8, 8, "M", 8, 8, "M"]


class VGG(nn.Module):
    """Channel counts are multiples of `width`; no dropout."""

    def __init__(self, plan, batch_norm=False, classes=1000, width=64,
                 hidden=4096):
        super().__init__()
        layers, c_in = [], 3
        for item in plan:
            if item == "M":
                layers.append(nn.MaxPool2d(2, 2))
                continue
            c = item * width
            layers.append(nn.Conv2d(c_in, c, 3, padding=1))
            if batch_norm:
                layers.append(nn.BatchNorm2d(c))
            layers.append(nn.ReLU(inplace=True))
            c_in = c
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(c_in * 49, hidden), nn.ReLU(inplace=True),
            nn.Dropout(0.0),
            nn.Linear(hidden, hidden), nn.ReLU(inplace=True),
            nn.Dropout(0.0),
            nn.Linear(hidden, classes))

    def forward(self, x):
        x = self.avgpool(self.features(x))
        return self.classifier(torch.flatten(x, 1))


def vgg11(**options):
    return VGG(VGG11, **options)


def vgg11_bn(**options):
    return VGG(VGG11, batch_norm=True, **options)


# ---------------------------------------------------------------- ViT

class EncoderBlock(nn.Module):
    def __init__(self, heads, width, hidden):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads,
                                                    batch_first=True)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0.0),
            nn.Linear(hidden, width), nn.Dropout(0.0))

    def forward(self, x):
        y = self.ln_1(x)
        y, _ = self.self_attention(y, y, y, need_weights=False)
        x = x + y
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, tokens, layers, heads, width, hidden):
        super().__init__()
        self.pos_embedding = nn.Parameter(
            torch.empty(1, tokens, width).normal_(std=0.02))
        self.layers = nn.Sequential()
        for i in range(layers):
            self.layers.add_module("encoder_layer_%d" % i,
                                   EncoderBlock(heads, width, hidden))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x):
        return self.ln(self.layers(x + self.pos_embedding))


class ViT(nn.Module):
    def __init__(self, image=224, patch=16, layers=12, heads=12, width=768,
                 hidden=3072, classes=1000):
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        tokens = (image // patch) ** 2 + 1
        self.encoder = Encoder(tokens, layers, heads, width, hidden)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(width, classes))

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        token = self.class_token.expand(x.shape[0], -1, -1)
        x = self.encoder(torch.cat([token, x], 1))
        return self.heads(x[:, 0])
