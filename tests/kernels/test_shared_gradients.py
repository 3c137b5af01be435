"""A tensor that several functions read has the gradient it would have had, in one place."""

from __future__ import annotations

import pytest
import torch
from helpers.random_tensors import randn
from torch import Tensor
from torch.autograd import gradcheck

from zoo.kernels.norm import normed_product
from zoo.kernels.shared_gradients import gathered_for, share_gradients
from zoo.kernels.softmax_sum import softmax_sum
from zoo.kernels.stream_mix import mixed_streams
from zoo.kernels.sums import weighted_sum

OTHER = randn(2, 3, 4, grad=False)
READERS = {
    "mixed_streams": lambda x: mixed_streams(x, randn(3, 2)),
    "normed_product": lambda x: normed_product(x, randn(4, 5), 1e-5),
    "centred normed_product": lambda x: normed_product(x, randn(4, 5), 1e-5, centred=True),
    "normed_product over two dimensions": lambda x: normed_product(x, randn(12, 5), 1e-5, dims=2),
    "weighted_sum": lambda x: weighted_sum(randn(2), [x, OTHER]),
    "softmax_sum": lambda x: softmax_sum(randn(4), [x, OTHER], 1e-5)[0],
    "something else": torch.sin,
}


def read(x: Tensor, times: int = 2) -> Tensor:
    """A number that depends on x through every reader, more than once."""
    return torch.stack([(reader(x) ** 2).sum() for reader in READERS.values() for _ in range(times)]).sum()


def gradient(x: Tensor, shared: bool) -> Tensor:
    (given,) = share_gradients(x) if shared else (x,)
    (grad,) = torch.autograd.grad(read(given), x)
    return grad


def test_the_gradient_is_that_of_all_readers() -> None:
    x = randn(2, 3, 4)
    torch.testing.assert_close(gradient(x, shared=True), gradient(x, shared=False))


@pytest.mark.parametrize("name", sorted(set(READERS) - {"something else"}))
def test_a_reader_adds_to_what_is_there(name: str) -> None:
    returned = []
    (x,) = share_gradients(randn(2, 3, 4))
    x.register_hook(returned.append)
    first, second = (READERS[name](x).sum() for _ in range(2))
    (first + second).backward()
    assert all(grad is None for grad in returned), "autograd was given a gradient beside the one that is shared"


def test_every_backward_pass_starts_from_nothing() -> None:
    leaf = randn(2, 3, 4)
    (x,) = share_gradients(leaf)
    loss = read(x)
    torch.autograd.grad(loss, leaf, retain_graph=True)
    (again,) = torch.autograd.grad(loss, leaf)
    torch.testing.assert_close(again, gradient(leaf, shared=False))


def test_what_a_reader_noted_of_a_tensor_is_of_that_tensor() -> None:
    (x, y) = share_gradients(randn(2, 3, 4), randn(2, 3, 4) * 2)
    one, two = (softmax_sum(randn(4), [t, OTHER], 1e-5)[0] for t in (x, y))
    torch.testing.assert_close(two, softmax_sum(randn(4), [y.detach(), OTHER], 1e-5)[0])
    torch.testing.assert_close(one, softmax_sum(randn(4), [x.detach(), OTHER], 1e-5)[0])


def test_nothing_is_shared_without_gradients() -> None:
    with torch.no_grad():
        (x,) = share_gradients(randn(2, 3, 4))
    assert gathered_for(x) is None
    assert gradcheck(lambda x: read(*share_gradients(x), times=1), (randn(2, 3, 4),))


@pytest.mark.parametrize("name", READERS)
def test_a_reader_may_read_what_another_one_made(name: str) -> None:
    """Such a tensor is not shared, whatever the function that made it keeps for its own backward."""
    x = randn(2, 3, 4)
    made, _ = softmax_sum(randn(4), [x, OTHER], 1e-5)
    apart = made.clone()
    assert gathered_for(made) is None
    grads = [torch.autograd.grad((READERS[name](each) ** 2).sum(), x, retain_graph=True)[0] for each in (made, apart)]
    torch.testing.assert_close(*grads)
