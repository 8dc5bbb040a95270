"""The API conforms to its OpenAPI description: schemathesis makes the requests."""

from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from schemathesis import GenerationMode

from hopwalk.web.limits import MOST_HEADER_BYTES
from tests.support.serving import Client

OPERATIONS = {
    ("POST", "/api/v1/ask"),
    ("POST", "/api/v1/explain"),
    ("POST", "/api/v1/draw"),
    ("GET", "/api/v1/profile"),
    ("GET", "/api/v1/facts"),
    ("GET", "/api/v1/entities"),
    ("GET", "/api/v1/relations"),
    ("GET", "/api/v1/runs"),
    ("GET", "/api/v1/runs/{run}"),
    ("GET", "/api/v1/health"),
    ("GET", "/metrics"),
    ("POST", "/api/v1/ask-many"),
    ("GET", "/api/v1/rules"),
    ("GET", "/api/v1/paths"),
    ("POST", "/api/v1/complete"),
    ("GET", "/api/v1/jobs"),
    ("GET", "/api/v1/jobs/{job}"),
    ("GET", "/api/v1/jobs/{job}/facts"),
    ("DELETE", "/api/v1/jobs/{job}"),
}
QUICK = settings(max_examples=12, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def described(client: Client) -> Any:
    refused = {"checks": {"negative_data_rejection": {"expected-statuses": ["400", "404", "413", "414", "422"]}}}
    return schemathesis.openapi.from_url(f"{client.address}openapi.json", config=schemathesis.Config.from_dict(refused))


def test_every_operation_is_described(described: Any):
    found = [operation.ok() for operation in described.get_all_operations()]
    assert {(operation.method.upper(), operation.path) for operation in found} == OPERATIONS


def is_short_enough(case: Any) -> bool:
    """Whether the server reads the whole address; it closes the connection of longer ones (tested with the limits)."""
    sent = case.as_transport_kwargs()
    url = requests.Request(sent["method"], sent["url"], params=sent.get("params")).prepare().url or ""
    return len(url) < MOST_HEADER_BYTES - 4096  # which leaves room for the headers


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("method", "path"), sorted(OPERATIONS))
def test_requests_are_answered_as_described(described: Any, method: str, path: str, mode: GenerationMode):
    """Whether the requests fit the description or not."""
    operation = described[path][method]
    if mode == GenerationMode.NEGATIVE and not (operation.body or operation.query):
        return  # nothing can be invalid: every text is a path

    @QUICK
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        assume(is_short_enough(case))
        case.call_and_validate()

    check()


@pytest.mark.parametrize("path", ["/api/v1/ask", "/api/v1/explain"])
def test_queries_of_known_names_are_answered_as_described(described: Any, path: str):
    names = {"head": "child 0", "relation": "uncle"} | ({"tail": "man 1"} if path.endswith("explain") else {})

    @QUICK
    @given(case=described[path]["POST"].as_strategy())
    def check(case: Any) -> None:
        case.body = {name: value for name, value in case.body.items() if name != "run"} | names
        response = case.call()
        assert response.status_code == 200, response.text
        case.validate_response(response)

    check()
