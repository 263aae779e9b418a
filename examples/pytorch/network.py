"""What train.py trains where PyTorch is: a small network, its parameters and gradients in memory of the library's.

Gradients are averaged while the backward pass goes on: a bucket is started when its last gradient is there, on a stream of its own, and
the optimizer waits for that stream, not the host.

While a stream waits for the others, nothing that the host asks of CUDA may wait for that stream inside of the driver: there it keeps others'
launches waiting, the library's among them. So kernels are loaded before, and the host synchronises with a stream before it copies from it.
"""
import hashlib
import os

# Read when CUDA starts. Streams that wait need queues of the GPU's of their own.
os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

import torch

BUCKETS, RATE, MOMENTUM, ROWS = 4, 0.02, 0.9, 256


def tensor(memory):
    """The library's memory as a tensor, without a copy."""
    if memory.cuda:
        return torch.as_tensor(memory, device="cuda")
    return torch.frombuffer(memory.floats(), dtype=torch.float32)


def when_accumulated(parameter, call):
    """Calls back when the backward pass has added to the parameter's gradient; what has to be kept for that."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(lambda _: call())
    # Before PyTorch 2.1: the node of the graph that adds, found through a view.
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    node.register_hook(lambda *_: call())
    return node


class Model:
    """The state: parameters, momenta, updates. Gradients: and the loss, and whether somebody asks to finish."""

    def __init__(self, job, device, _cuda_runtime):
        if device == "cuda" and not torch.cuda.is_available():
            raise SystemExit("train.py: no GPU that PyTorch can use here; --device cpu trains on the host")
        torch.manual_seed(7)
        torch.set_num_threads(1)  # the network is small, and replicas may share the processors
        self.device, cuda = torch.device(device), device == "cuda"
        wide = 64
        self.net = torch.nn.Sequential(torch.nn.Linear(16, wide), torch.nn.Tanh(), torch.nn.Linear(wide, wide), torch.nn.Tanh(),
                                       torch.nn.Linear(wide, 1)).to(self.device)
        self.teacher = torch.randn(16, 1, device=self.device) / 4
        # The last layer's gradients come first.
        self.parameters = list(reversed(list(self.net.parameters())))
        self.count = sum(p.numel() for p in self.parameters)
        self.state_count = 2 * self.count + 1
        # What the library has given out must live as long as the tensors.
        self.memories = [job.alloc(self.state_count, cuda), job.alloc(self.count + 2, cuda)]
        self.state, self.gradient = map(tensor, self.memories)
        self.state.zero_()
        self.gradient.zero_()
        self.comm = torch.cuda.Stream() if cuda else None
        self.stream = self.comm.cuda_stream if cuda else None
        at, ends = 0, []
        for p in self.parameters:
            self.state[at:at + p.numel()].copy_(p.data.flatten())
            p.data = self.state[at:at + p.numel()].view_as(p)
            p.grad = self.gradient[at:at + p.numel()].view_as(p)  # the backward pass adds to it in place
            at += p.numel()
            ends.append(at)
        self.cut(ends)
        if cuda:
            self.warm_up()

    def warm_up(self):
        """Libraries that PyTorch opens at the first use of each kind of layer are opened before the first operation."""
        self.missing, self.sent = [len(self.parameters) + 1] * len(self.buckets), 0  # no bucket is ever there
        self.loss_of(torch.zeros(ROWS, 16)).backward()
        self.digest()
        torch.cuda.synchronize()

    def loss_of(self, rows):
        rows = rows.to(self.device)
        return torch.nn.functional.mse_loss(self.net(rows), torch.sin(rows @ self.teacher))

    def cut(self, ends):
        """Buckets of whole parameters; the last one takes what belongs to all."""
        self.buckets, self.bucket_of, first = [], [], 0
        for i, end in enumerate(ends):
            self.bucket_of.append(len(self.buckets))
            if end - first >= self.count / BUCKETS or i + 1 == len(ends):
                self.buckets.append((first, end))
                first = end
        self.buckets[-1] = (self.buckets[-1][0], self.count + 2)
        self.missing, self.sent, self.ready = [], 0, None
        self.hooks = [when_accumulated(p, lambda bucket=bucket: self.arrived(bucket))
                      for p, bucket in zip(self.parameters, self.bucket_of)]

    def arrived(self, bucket):
        self.missing[bucket] -= 1
        # In one order on all replicas, as calls of a group must be, and without what belongs to all.
        while self.sent + 1 < len(self.buckets) and self.missing[self.sent] == 0:
            self.send()

    def send(self):
        if self.comm:
            self.comm.wait_stream(torch.cuda.current_stream())
        first, last = self.buckets[self.sent]
        self.sent += 1
        self.ready(self.gradient.data_ptr() + 4 * first, last - first)

    def state_address(self):
        if self.comm:
            self.comm.wait_stream(torch.cuda.current_stream())
        return self.state.data_ptr()

    def backward(self, step, replica, finish, ready):
        """Gradients of this replica's share of the step; ready(address, count) as soon as a bucket is there."""
        self.ready, self.sent = ready, 0
        self.missing = [self.bucket_of.count(b) for b in range(len(self.buckets))]
        self.gradient.zero_()
        share = torch.Generator().manual_seed(step * 1000 + replica)
        loss = self.loss_of(torch.randn(ROWS, 16, generator=share))
        loss.backward()
        self.gradient[self.count] = loss.detach()
        self.gradient[self.count + 1] = float(finish)
        self.send()

    def update(self):
        """One step along the averaged gradients; the loss, and whether somebody asks to finish."""
        if self.comm:
            torch.cuda.current_stream().wait_stream(self.comm)
        with torch.no_grad():
            parameters, momenta = self.state[:self.count], self.state[self.count:2 * self.count]
            momenta.mul_(MOMENTUM).add_(self.gradient[:self.count])
            parameters.add_(momenta, alpha=-RATE)
            self.state[-1] += 1
        if self.comm:
            torch.cuda.current_stream().synchronize()
        loss, asked = self.gradient[self.count:].tolist()
        return loss, asked > 0

    def digest(self):
        return hashlib.sha1(self.state.cpu().numpy().tobytes()).hexdigest()[:12]
