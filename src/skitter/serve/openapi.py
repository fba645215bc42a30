"""The OpenAPI 3.1 document, made of the table of routes and the types in it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

import skitter
from skitter.serve.problems import Problem
from skitter.serve.routes import Route
from skitter.serve.shapes import ACTIONS

_REF = "#/components/schemas/{name}"
_PROBLEMS = {
    "400": "the request cannot be understood",
    "401": "no token, or one that is not known",
    "403": "not allowed, or asked by a page of another origin",
    "404": "there is no such thing",
    "409": "not possible in the present state",
    "413": "the body is too long",
    "415": "the body is no JSON",
    "421": "this is not the server that Host names",
    "422": "the crawl could not be started",
    "429": "too many requests",
    "500": "a fault of ours",
    "503": "not now",
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The whole document."""
    types = {route.answer for route in routes if route.answer not in (None, dict, Path)}
    types |= {route.body for route in routes if route.body is not None} | {Problem}
    schemas, components = msgspec.json.schema_components(
        sorted(types, key=lambda each: each.__name__),
        ref_template=_REF,
    )
    refs = dict(zip(sorted(types, key=lambda each: each.__name__), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Skitter",
            "version": skitter.__version__,
            "description": "Read, steer and start crawls. Lists are paged by cursors, errors are application/problem+json, and a POST "
            "with an Idempotency-Key is carried out once.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": refs[Problem]}}
    answers: dict[str, Any] = {str(route.status): _answer(route, refs)}
    answers |= {code: {"description": text, "content": problem} for code, text in _PROBLEMS.items()}
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [*map(_in_path, route.names_in_path), *_in_query(route)],
        "responses": answers,
    }
    if route.method == "GET" and route.answer is not None:
        answers["304"] = {"description": "unchanged since the ETag in If-None-Match"}
    if route.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": refs[route.body]}},
        }
        found["parameters"].append(
            {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 200}}
        )
    if route.scope:
        found["security"] = [{"token": []}]
        found["description"] = f"Needs a token with the scope {route.scope}."
    return found


def _answer(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    if route.answer is None:
        return {"description": "a stream", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
    if route.answer is Path:
        return {"description": "the file", "content": {"application/octet-stream": {}}}
    schema = {"type": "object"} if route.answer is dict else refs[route.answer]
    return {"description": "the answer", "content": {"application/json": {"schema": schema}}}


def _in_path(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": 200}
    if name == "action":
        schema["enum"] = list(ACTIONS)
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(route: Route) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([route.query], ref_template=_REF)
    shape = components[route.query.__name__]
    required = shape.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in shape.get("properties", {}).items()
    ]
