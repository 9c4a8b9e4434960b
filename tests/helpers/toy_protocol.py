"""A protocol small enough to see through: a driver asks, an answerer asks a helper meanwhile."""

import numpy as np

from fedsift.protocol import DrivingRole, Message, Protocol, Role, handles, message


@message(flow="asker -> answerer", reveals="nothing: test")
class Question(Message, frozen=True):
    number: int


@message(flow="answerer -> asker", reveals="answers: a number")
class Answer(Message, frozen=True):
    number: int


@message(flow="answerer -> helper", reveals="nothing: test")
class SubQuestion(Message, frozen=True):
    number: int


@message(flow="helper -> answerer", reveals="hints: a number")
class Hint(Message, frozen=True):
    number: int


class Asker(DrivingRole, name="asker"):
    def __init__(self, role="answerer", reply=Answer):
        self.role, self.reply = role, reply

    async def drive(self, net):
        self.note(step="asking", number=np.int64(3))
        return [a.number for a in await net.ask(self.role, Question(3), self.reply)]


class Answerer(Role, name="answerer"):
    @handles(Question)
    async def answer(self, ask, net):
        hints = (
            await net.ask("helper", SubQuestion(ask.number), Hint) if net.members("helper") else []
        )
        return Answer(ask.number + sum(h.number for h in hints))


class Helper(Role, name="helper"):
    @handles(SubQuestion)
    async def hint(self, ask, net):
        return Hint(10 * ask.number)


TOY = Protocol("toy", (Question, Answer, SubQuestion, Hint), (Asker, Answerer, Helper))
