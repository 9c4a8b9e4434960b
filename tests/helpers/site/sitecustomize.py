"""Changes what the processes of a federation do, for tests that start them with this folder.

Python runs this file when it starts. ``FEDSIFT_TESTS`` names what is changed, as soon as the module
concerned is imported: with ``seeds`` private draws follow the seed, so that runs can be compared;
with ``lie`` the driver that ``FEDSIFT_TESTS_OUT``.liar names swaps the keys it passes on, and
writes down what it got.
"""

import importlib.util
import json
import os
import sys


def follow_seeds(draws):
    draws._seeds_drive_everything = True


def swap_keys(name, between=False):
    def change(module):
        driver = getattr(module, name)
        drive = driver.drive

        async def lie(self, net):
            with open(os.environ["FEDSIFT_TESTS_OUT"] + ".liar", encoding="utf-8") as file:
                if file.read() != module.__name__:
                    return await drive(self, net)
            from fedsift.lab.attacks.key_swap import KeySwapper

            liar = KeySwapper(net, between=between)
            try:
                return await drive(self, liar)
            finally:
                got = [message for _, message in liar.received]
                fields = [getattr(one, name) for one in got for name in one.__struct_fields__]
                line = {
                    "received": [type(message).__name__ for message in got],
                    "masked": sum(type(field).__name__ == "MaskedArray" for field in fields),
                    "secrets": len(liar.secrets),
                }
                with open(os.environ["FEDSIFT_TESTS_OUT"], "a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")

        driver.drive = lie

    return change


CHANGES = {
    "seeds": {"fedsift.privacy.draws": follow_seeds},
    "lie": {
        "fedsift.jobs.setup": swap_keys("SetupCoordinator"),
        "fedsift.methods.dcfs.coordinator": swap_keys("Coordinator"),
        "fedsift.methods.fedsdg.blind.label_holder": swap_keys("BlindLabelHolder"),
        "fedsift.methods.fedsdg.label_holder": swap_keys("LabelHolder"),
        "fedsift.methods.filter.coordinator": swap_keys("Coordinator"),
        "fedsift.methods.fpso.third_party": swap_keys("ThirdParty"),
        "fedsift.methods.fpso.votes": swap_keys("VoteCounter"),
        "fedsift.methods.vfps.leader": swap_keys("Leader", between=True),
    },
}


class Changer:
    """Finds one module as ever, and changes it once it is there."""

    def __init__(self, name, change):
        self._name, self._change = name, change

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            self._change(module)

        spec.loader.exec_module = execute_and_change
        return spec


for place, how in CHANGES.get(os.environ.get("FEDSIFT_TESTS"), {}).items():
    sys.meta_path.insert(0, Changer(place, how))
