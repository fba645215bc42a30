"""The contract of `skitter.ports.Frontier`, executable.

    class TestMyFrontier(FrontierContract):
        @pytest.fixture
        def ground(self, tmp_path):
            return MyGround(tmp_path)  # see skitter.testing.contracts.owner.Ground

Its parts name the invariants they test. `skitter.testing.contracts.frontier_model` compares a back end with the reference
in memory besides, step by step through histories that Hypothesis invents.
"""

from skitter.testing.contracts.frontier_assets import AssetContract
from skitter.testing.contracts.frontier_changes import ChangeContract
from skitter.testing.contracts.frontier_commands import CommandContract
from skitter.testing.contracts.frontier_crashes import CrashContract
from skitter.testing.contracts.frontier_depths import DepthContract
from skitter.testing.contracts.frontier_flow import FlowContract
from skitter.testing.contracts.frontier_forwarding import FrontierMessageContract, FrontierOutboxContract
from skitter.testing.contracts.frontier_kept import KeptContract
from skitter.testing.contracts.frontier_learning import LearningContract
from skitter.testing.contracts.frontier_linked import LinkedContract
from skitter.testing.contracts.frontier_listening import ListeningContract
from skitter.testing.contracts.frontier_order import HostOrderContract
from skitter.testing.contracts.frontier_parameters import ParameterContract
from skitter.testing.contracts.frontier_politeness import PolitenessContract
from skitter.testing.contracts.frontier_put_off import PutOffContract
from skitter.testing.contracts.frontier_queue import QueueContract
from skitter.testing.contracts.frontier_reading import ReadingContract
from skitter.testing.contracts.frontier_refresh import RefreshContract
from skitter.testing.contracts.frontier_seeds import SeedContract
from skitter.testing.contracts.frontier_settling import SettlingContract
from skitter.testing.contracts.owner import Ground, Owner

__all__ = ["FrontierContract", "Ground", "MessagingFrontierContract", "Owner"]


class _Invariants(
    QueueContract,
    SeedContract,
    PolitenessContract,
    ListeningContract,
    SettlingContract,
    PutOffContract,
    CrashContract,
    ReadingContract,
    ChangeContract,
    KeptContract,
    CommandContract,
    AssetContract,
    FlowContract,
    DepthContract,
    HostOrderContract,
    LinkedContract,
    RefreshContract,
    LearningContract,
    ParameterContract,
):
    """All invariants but the eighth."""


class FrontierContract(_Invariants, FrontierOutboxContract):
    """Every numbered invariant of the port. Needs a fixture `ground`."""


class MessagingFrontierContract(_Invariants, FrontierMessageContract):
    """The same if links of other shards are sent as messages. Needs a fixture `ground`, a `MessageGround`."""
