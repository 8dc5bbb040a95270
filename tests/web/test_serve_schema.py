"""The API keeps to its own OpenAPI description, whatever it is asked: schemathesis makes the requests."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from tests.support.serving import Client

OPERATIONS = {
    ("POST", "/api/v1/ask"),
    ("POST", "/api/v1/explain"),
    ("GET", "/api/v1/entities"),
    ("GET", "/api/v1/relations"),
    ("GET", "/api/v1/runs"),
    ("GET", "/api/v1/runs/{run}"),
    ("GET", "/api/v1/health"),
    ("GET", "/metrics"),
}
QUICK = settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def described(client: Client) -> Any:
    refused = {"checks": {"negative_data_rejection": {"expected-statuses": ["400", "404", "413", "414", "422"]}}}
    return schemathesis.openapi.from_url(f"{client.address}openapi.json", config=schemathesis.Config.from_dict(refused))


def test_every_operation_is_described(described: Any):
    found = [operation.ok() for operation in described.get_all_operations()]
    assert {(operation.method.upper(), operation.path) for operation in found} == OPERATIONS


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("method", "path"), sorted(OPERATIONS))
def test_requests_are_answered_as_described(described: Any, method: str, path: str, mode: GenerationMode):
    """As described where they fit the description, and where they do not."""
    operation = described[path][method]
    if mode == GenerationMode.NEGATIVE and not (operation.body or operation.query):
        return  # nothing can be wrong: every text is a path

    @QUICK
    @given(case=operation.as_strategy(generation_mode=mode))
    def asked(case: Any) -> None:
        case.call_and_validate()

    asked()


@pytest.mark.parametrize("path", ["/api/v1/ask", "/api/v1/explain"])
def test_queries_about_what_exists_are_answered_as_described(described: Any, path: str):
    names = {"head": "child 0", "relation": "uncle"} | ({"tail": "man 1"} if path.endswith("explain") else {})

    @QUICK
    @given(case=described[path]["POST"].as_strategy())
    def asked(case: Any) -> None:
        case.body = {name: value for name, value in case.body.items() if name != "run"} | names
        response = case.call()
        assert response.status_code == 200, response.text
        case.validate_response(response)

    asked()
