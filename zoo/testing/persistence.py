"""A method is the same after it was saved, copied or moved."""

from __future__ import annotations

import copy
import io
import pickle

import torch

from zoo.model.language_model import LanguageModel
from zoo.testing.cases import Broken, Case, Outcome, hosts
from zoo.testing.method_under_test import EXACT, Subject, difference, look, randomise, run, tokens

STARTS = hosts(Case(1, 4, 1), Case(2, 6, 2), Case(5, 6, 2))
UPCYCLED = hosts(Case(2, 6, 2))


SAVED = hosts(Case(1, 4, 1), Case(2, 6, 2))


def saved(subject: Subject, case: Case) -> Outcome | None:
    """Its state dict is all there is to it: loaded into another model, it gives the same results."""
    built, inputs = subject.build(case.but(training=True)), tokens(case)
    optimizer = torch.optim.SGD(built.parameters(), lr=1e-3)
    for seed in range(2):  # whatever training passes keep is kept now
        run(built, tokens(case, seed)).square().mean().backward()
        optimizer.step()
    file = io.BytesIO()
    torch.save(built.state_dict(), file)
    file.seek(0)
    other = subject.build(case, seed=1)
    try:
        other.load_state_dict(torch.load(file, weights_only=True))
    except RuntimeError as error:
        return Broken(f"what was saved cannot be loaded into a new model: {error}")
    if (apart := difference(look(other.eval(), inputs), look(built.eval(), inputs))) > EXACT:
        return Broken(
            f"a model that was saved and loaded answers otherwise, by {apart:.1e}: some tensor is neither a parameter"
            " nor a buffer of the state dict"
        )
    return None


MOVED = (Case(1, 4, 1), Case(2, 6, 2, parallel=True))


def moved(subject: Subject, case: Case) -> Outcome | None:
    """Copied, pickled, converted to another type or moved to another device, it works on."""
    built, inputs = subject.build(case), tokens(case)
    whole = look(built, inputs)
    for how, twin in (("a deep copy", copy.deepcopy(built)), ("a pickled copy", pickle.loads(pickle.dumps(built)))):
        if difference(look(twin, inputs), whole) > EXACT:
            return Broken(f"{how} of the model answers otherwise")
        randomise(twin, seed=7)
        if difference(look(built, inputs), whole) > 0:
            return Broken(f"{how} of the model shares weights with it: changing one changes the other")
        fresh = subject.build(case)
        randomise(fresh, seed=7)
        if difference(look(twin, inputs), look(fresh, inputs)) > EXACT:
            return Broken(f"{how} of the model does not use its own weights")
    near = 1e-3 if subject.declared.deterministic else 1e3  # what is drawn in float32 is not what is drawn in float64
    narrow = copy.deepcopy(built).float()
    if difference(look(narrow, inputs), whole) > near:
        return Broken("converted from float64 to float32 the model answers otherwise")
    if difference(look(narrow.double(), inputs), whole) > near:
        return Broken("converted to float32 and back the model answers otherwise")
    return _on_devices(built, case)


def _on_devices(built: LanguageModel, case: Case) -> Broken | None:
    for device in ("meta", "cuda") if torch.cuda.is_available() else ("meta",):  # meta: shapes without numbers
        there = copy.deepcopy(built).to(device)
        try:
            logits = look(there, tokens(case).to(device))
        except (RuntimeError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            return Broken(
                f"on the device {device} it fails: {reason}; make tensors there, or parameters or buffers of them"
            )
        if logits.device.type != device:
            return Broken(f"moved to the device {device} the model answers on {logits.device.type}")
    return None
