"""From specs and files to networks: weights, callables, torchvision and timm, exported programs, ONNX."""
