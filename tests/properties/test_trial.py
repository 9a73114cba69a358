import pytest
from latecomer.sim.disk import Disk
from latecomer.core.effects import Put
from latecomer.core.session import delivery, publishing, sessions
from hypothesis import settings
import tests.properties.test_session as T
from hypothesis.stateful import run_state_machine_as_test
def run(): run_state_machine_as_test(T.Promises, settings=settings(max_examples=200, stateful_step_count=40, database=None))
def test_incoming(monkeypatch):
    old=Disk.apply
    monkeypatch.setattr(Disk,"apply",lambda self,w: old(self,[x for x in w if x.table!="incoming"]))
    with pytest.raises(Exception): run()
def test_release(monkeypatch):
    old=Disk.apply
    monkeypatch.setattr(Disk,"apply",lambda self,w: old(self,[x for x in w if not (x.table=="queue" and type(x) is Put and x.value is None)]))
    with pytest.raises(Exception): run()
def test_queue(monkeypatch):
    old=Disk.apply
    monkeypatch.setattr(Disk,"apply",lambda self,w: old(self,[x for x in w if not (x.table=="queue")]))
    with pytest.raises(Exception): run()
def test_resume(monkeypatch):
    def resume(self, session):
        for f in reversed([f.number for f in session.inflight.values() if f.stage is not delivery.Stage.PUBCOMP]):
            pass
        self.pump(session)
    monkeypatch.setattr(delivery.Deliveries,"resume",resume)
    with pytest.raises(Exception): run()
def test_wrap(monkeypatch):
    monkeypatch.setattr(delivery,"packet_id",lambda n:(n-1)%3+1)
    run()
