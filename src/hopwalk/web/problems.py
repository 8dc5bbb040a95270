"""Errors as JSON: the problem, the remedy, and suggestions for unknown names. Never a traceback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse as PlainJSONResponse
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from hopwalk.utils.text import json_text


class JSONResponse(PlainJSONResponse):
    """JSON in which control characters and those that turn the direction of text are escaped."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json_text(content).encode()


RETRY = {"Retry-After": "1"}


class Problem(BaseModel):
    """A problem with a request."""

    code: str = Field(description="A code for programs, such as `unknown_name` or `overloaded`.")
    message: str = Field(description="What is wrong.")
    remedy: str = Field(default="", description="What to do about it.")
    field: str | None = Field(default=None, description="The field with the unknown name, such as `head`.")
    suggestions: list[str] = Field(default_factory=list, description="Similar names that exist.")


class ProblemBody(BaseModel):
    """The body of every error."""

    error: Problem


class RequestError(Exception):
    """A request that cannot be answered, with the HTTP status."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        remedy: str = "",
        field: str | None = None,
        suggestions: Sequence[str] = (),
        retry: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.retry = status, retry
        self.problem = Problem(code=code, message=message, remedy=remedy, field=field, suggestions=list(suggestions))

    def response(self) -> Response:
        """The response with the problem."""
        headers = RETRY if self.retry else {"WWW-Authenticate": "Bearer"} if self.status == 401 else None
        return problem_response(self.status, self.problem, headers)


def problem_response(status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """A problem as a response."""
    return JSONResponse({"error": problem.model_dump()}, status_code=status, headers=dict(headers or {}))


def responses_of(*statuses: int) -> dict[int | str, dict[str, object]]:
    """The statuses for the OpenAPI description of an operation."""
    descriptions = {
        400: "The request cannot be read, or its Host header is not one of this server.",
        401: "The API token is missing or wrong.",
        404: "A name is unknown.",
        408: "The request did not arrive in time.",
        409: "The job is not finished.",
        413: "The body is too large.",
        414: "The address is too long.",
        422: "A value is missing, of the wrong type, or beyond its limit.",
        503: "Too many requests are waiting; try again.",
        504: "The answer took too long.",
    }
    return {status: {"model": ProblemBody, "description": descriptions[status]} for status in statuses}


def add_handlers(app: FastAPI) -> None:
    """Turn every error of the app into a problem in JSON."""

    @app.exception_handler(RequestError)
    async def request_error(_: Request, error: RequestError) -> Response:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        messages = [_validation_message(one) for one in error.errors()]
        return problem_response(422, Problem(code="invalid_request", message="; ".join(messages[:5])))

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        codes = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}
        problem = Problem(code=codes.get(error.status_code, "refused"), message=str(error.detail))
        return problem_response(error.status_code, problem, error.headers)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return problem_response(500, Problem(code="internal", message="Internal error; see the log of the server."))


def _validation_message(error: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return "The body is not JSON"
    place = ".".join(str(part) for part in error["loc"][1:]) or "body"
    return f"{place}: {error['msg']}"
