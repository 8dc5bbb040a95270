"""The API and the page as one ASGI app."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi import Path as InPath
from fastapi.responses import FileResponse, PlainTextResponse, Response
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp

from hopwalk import __version__
from hopwalk.errors import HopwalkError, UnknownNameError
from hopwalk.reasoning.drawing import draw_paths
from hopwalk.reasoning.values import Edge, ReasoningPath
from hopwalk.web import schemas
from hopwalk.web.engine import Engine, OverloadedError, Task
from hopwalk.web.jobs import Job, Jobs
from hopwalk.web.limits import (
    MOST_CHARACTERS,
    MOST_FOUND,
    MOST_HOPS,
    MOST_OF_JOB,
    MOST_OF_RUN,
    MOST_OFFSET,
    MOST_PATHS_IN_ALL,
    MOST_RULES,
    MOST_TYPED,
    Limits,
)
from hopwalk.web.metrics import Metrics
from hopwalk.web.middleware import RequestMiddleware
from hopwalk.web.problems import JSONResponse, RequestError, add_handlers, responses_of
from hopwalk.web.runs import RunView
from hopwalk.web.tasks import Asking, AskingMany, Connecting, Describing, Explaining, MiningRules

STATIC = Path(__file__).parent / "static"
API = "/api/v1"
RunName = Annotated[str | None, Query(max_length=MOST_OF_RUN, description="The run to ask. Default: the first run.")]
Typed = Annotated[str, Query(max_length=MOST_TYPED, description="The beginning of a name, or part of it; empty for all names.")]
EntityName = Annotated[str, Query(min_length=1, max_length=MOST_CHARACTERS, description="The entity, by label or by name.")]
RelationName = Annotated[
    str, Query(min_length=1, max_length=MOST_CHARACTERS, description="The relation; with ⁻¹ at its end, its inverse.")
]
Offset = Annotated[int, Query(ge=0, le=MOST_OFFSET, description="The number of facts to skip.")]
JobId = Annotated[str, InPath(max_length=MOST_OF_JOB, description="The id of the job.")]
Limit = Annotated[int, Query(ge=1, le=MOST_FOUND, description="Maximum number of results.")]


def create_app(
    runs: Mapping[str, RunView], *, limits: Limits | None = None, token: str | None = None, hosts: Iterable[str] = ()
) -> ASGIApp:
    """The app that serves these runs. With a `token`, the API requires it. `hosts` are host names of this server."""
    limits = limits or Limits()
    metrics = Metrics(__version__)
    engine = Engine(most_waiting=limits.waiting, on_batch=metrics.batch)
    metrics.waiting = lambda: engine.waiting
    jobs = Jobs(engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        await asyncio.to_thread(jobs.stop)
        await asyncio.to_thread(engine.stop)

    app = FastAPI(
        title="hopwalk",
        version=__version__,
        description="Answers questions over incomplete knowledge graphs, and shows the walks that are the reason.",
        docs_url=None,  # FastAPI's pages load scripts from another host
        redoc_url=None,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,  # stable names for clients that are generated
    )
    add_handlers(app)
    access = [Depends(HTTPBearer(auto_error=False)), Depends(_token_check(token))] if token else []
    _add_health(app, runs, engine)
    app.include_router(_api(Handlers(runs, engine, limits), jobs), prefix=API, dependencies=access)

    @app.get("/metrics", dependencies=access, response_class=PlainTextResponse, responses=responses_of(401) if token else {})
    async def show_metrics() -> PlainTextResponse:
        """Metrics of the server in the text format of Prometheus."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    _add_pages(app)
    return RequestMiddleware(app, hosts=hosts, metrics=metrics, seconds=limits.seconds)


def _token_check(token: str) -> Any:
    expected = b"Bearer " + token.encode()

    async def check_token(request: Request) -> None:
        given = request.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(given, expected):
            remedy = "Send it in the header: Authorization: Bearer TOKEN"
            raise RequestError(401, "unauthorized", "The API token is missing or wrong.", remedy=remedy)

    return check_token


def _add_health(app: FastAPI, runs: Mapping[str, RunView], engine: Engine) -> None:
    @app.get(f"{API}/health", response_model=schemas.HealthBody)
    async def health() -> Response:
        """Whether the server is up; needs no token."""
        content = {"status": "ok", "version": __version__, "runs": len(runs), "waiting": engine.waiting}
        return JSONResponse(content)


def _add_pages(app: FastAPI) -> None:
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    async def api_page() -> FileResponse:
        return FileResponse(STATIC / "api.html")

    for path, shown in (("/", page), ("/docs", api_page)):
        app.add_api_route(path, shown, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC))


class Handlers:
    """Handlers of requests: look up names, submit tasks to the engine, turn errors into problems."""

    def __init__(self, runs: Mapping[str, RunView], engine: Engine, limits: Limits) -> None:
        self.runs, self._engine, self._limits = runs, engine, limits

    def run(self, name: str | None) -> RunView:
        """The run that a request names, or the first one."""
        chosen = next(iter(self.runs)) if name is None else name
        if chosen not in self.runs:
            raise RequestError(404, "unknown_run", "There is no such run.", field="run", suggestions=list(self.runs)[:5])
        return self.runs[chosen]

    async def entity(self, run: RunView, text: str, field: str) -> int:
        """The entity that a field of the request names."""
        return await self._find(run, run.reasoner.names.entity_id, text, field)

    async def relation(self, run: RunView, text: str, field: str = "relation") -> int:
        """The relation that a field of the request names, or its inverse."""
        return await self._find(run, run.reasoner.names.relation_id, text, field, is_relation=True)

    async def query(self, run: RunView, head: str, relation: str, place: str = "") -> dict[str, str]:
        """The query that a request has at a place: labels and readable names."""
        entities, names = run.dataset.entities, run.reasoner.names
        head_id = await self.entity(run, head, f"{place}head")
        relation_id = await self.relation(run, relation, f"{place}relation")
        of_head = {"run": run.name, "head": entities[head_id], "name": entities.name(head_id)}
        return of_head | {"relation": names.relation_key(relation_id), "relation_name": names.relation_name(relation_id)}

    async def _find(self, run: RunView, find: Callable[[str], int], text: str, field: str, *, is_relation: bool = False) -> int:
        try:
            return await run.look_up(find, text)
        except UnknownNameError as error:
            index, labels = (run.relations, run.dataset.relations) if is_relation else (run.entities, run.dataset.entities)
            near = [labels[id_] for id_ in await run.look_up(index.near, text)]
            raise RequestError(
                404, "unknown_name", f"{error.problem}.", remedy=error.remedy, field=field, suggestions=near
            ) from None

    async def about(self, run: RunView) -> dict[str, Any]:
        """The description of a run; made by the engine if it is not made yet, since it asks queries."""
        return run.about if "about" in vars(run) else await self.run_task(Describing(run), None)

    async def run_task(self, task: Task, input_: Any) -> Any:
        """The engine's result for a task; an error if it takes too long."""
        try:
            future = self._engine.submit(task, input_)
            return await asyncio.wait_for(asyncio.wrap_future(future), self._limits.seconds)
        except OverloadedError as error:
            raise RequestError(503, "overloaded", f"{error}.".capitalize(), remedy="Try again in a second.", retry=True) from None
        except HopwalkError as error:
            raise RequestError(422, "no_answer", f"{error.problem}.", remedy=error.remedy) from None
        except TimeoutError:
            message = f"The answer took longer than {self._limits.seconds:g} seconds."
            raise RequestError(504, "timeout", message, remedy="Ask for less, or try again later.", retry=True) from None


def _api(handlers: Handlers, jobs: Jobs) -> APIRouter:
    router = APIRouter(responses=responses_of(400, 401, 408, 414, 422))
    errors = responses_of(404, 413, 503, 504)

    @router.post("/ask", response_model=schemas.AskBody, responses=errors)
    async def ask(query: schemas.AskRequest) -> Response:
        """The best answers of a query, each with its paths. `relation⁻¹` is the inverse of a relation."""
        run = handlers.run(query.run)
        about = await handlers.query(run, query.head, query.relation)
        asked = about["head"], about["relation"]
        answers = await handlers.run_task(Asking(run, query.k, query.paths, query.only_new), asked)
        return JSONResponse(about | {"answers": answers})

    @router.post("/explain", response_model=schemas.ExplainBody, responses=errors)
    async def explain(query: schemas.ExplainRequest) -> Response:
        """Why an entity is an answer: its paths, their rules, and how often these hold; or why not. `draw` draws the paths."""
        run = handlers.run(query.run)
        ends = {"head": query.head, "tail": query.tail}
        head, tail = [run.dataset.entities[await handlers.entity(run, text, field)] for field, text in ends.items()]
        relation = run.reasoner.names.relation_key(await handlers.relation(run, query.relation))
        return JSONResponse(
            {"run": run.name} | await handlers.run_task(Explaining(run, query.paths, query.k), (head, relation, tail))
        )

    @router.post("/draw", response_model=schemas.DrawBody, responses=responses_of(413))
    async def draw(query: schemas.DrawRequest) -> Response:
        """Paths of `ask` or `explain` as a drawing that is no wider than the width: SVG without scripts."""
        return JSONResponse({"drawing": await asyncio.to_thread(_drawn, query)})

    _add_searches(router, handlers)
    _add_profiles(router, handlers)
    _add_batches(router, handlers)
    _add_jobs(router, handlers, jobs)

    @router.get("/runs", response_model=schemas.RunsBody)
    async def list_runs() -> Response:
        """The runs of this server."""
        return JSONResponse({"runs": [await handlers.about(run) for run in handlers.runs.values()]})

    @router.get("/runs/{run}", response_model=schemas.RunBody, responses=responses_of(404))
    async def show_run(run: str) -> Response:
        """The card of a run."""
        return JSONResponse(await handlers.about(handlers.run(run)))

    return router


def _drawn(query: schemas.DrawRequest) -> str:
    paths = [
        ReasoningPath(query.head, tuple(Edge(**edge.model_dump()) for edge in path.edges), path.share) for path in query.paths
    ]
    return draw_paths(paths, width=query.width, head_key=query.key)


def _add_profiles(router: APIRouter, handlers: Handlers) -> None:
    @router.get("/profile", response_model=schemas.ProfileBody, responses=responses_of(404))
    async def profile(entity: EntityName, run: RunName = None) -> Response:
        """An entity: its facts by relation, the first of each, and the entities that share most of them."""
        view = handlers.run(run)
        key = view.dataset.entities[await handlers.entity(view, entity, "entity")]
        found = await asyncio.to_thread(view.reasoner.profile, key)
        return JSONResponse({"run": view.name} | found.to_dict())

    @router.get("/facts", response_model=schemas.FactsBody, responses=responses_of(404))
    async def list_facts(
        entity: EntityName,
        relation: RelationName,
        offset: Offset = 0,
        run: RunName = None,
        limit: Limit = 50,
    ) -> Response:
        """Known facts of an entity with a relation, a page at a time, in the order of labels."""
        view = handlers.run(run)
        key = view.dataset.entities[await handlers.entity(view, entity, "entity")]
        name = view.reasoner.names.relation_key(await handlers.relation(view, relation))
        found = await asyncio.to_thread(view.reasoner.facts, key, name, offset=offset, limit=limit)
        return JSONResponse(found.to_dict())


def _add_searches(router: APIRouter, handlers: Handlers) -> None:
    @router.get("/entities", response_model=schemas.EntitiesBody, responses=responses_of(404))
    async def search_entities(q: Typed = "", run: RunName = None, limit: Limit = 10) -> Response:
        """Entities whose names begin with the text, then those with a word that does, then those that contain it."""
        view = handlers.run(run)
        names = view.dataset.entities
        found = await view.look_up(view.entities.search, q, limit)
        return JSONResponse({"entities": [{"entity": names[id_], "name": names.name(id_)} for id_ in found]})

    @router.get("/relations", response_model=schemas.RelationsBody, responses=responses_of(404))
    async def search_relations(
        q: Typed = "",
        entity: Annotated[
            str | None, Query(max_length=MOST_CHARACTERS, description="List the relations of this entity first.")
        ] = None,
        run: RunName = None,
        limit: Limit = 50,
    ) -> Response:
        """Relations and their inverses: first those of the entity's facts, most frequent first, then the others."""
        view = handlers.run(run)
        own = await handlers.entity(view, entity, "entity") if entity else None
        return JSONResponse({"relations": await view.look_up(view.relations_by_use, q, own, limit)})


def _add_batches(router: APIRouter, handlers: Handlers) -> None:
    errors = responses_of(404, 413, 503, 504)

    @router.post("/ask-many", response_model=schemas.AskManyBody, responses=errors)
    async def ask_many(asked: schemas.AskManyRequest) -> Response:
        """The best answers of many queries, ranked together: the same as one by one, and faster."""
        if len(asked.queries) * asked.k * asked.paths > MOST_PATHS_IN_ALL:
            problem = f"queries times k times paths is more than {MOST_PATHS_IN_ALL:,}."
            raise RequestError(422, "too_much", problem, remedy="Ask for fewer answers or paths, or in several batches.")
        run = handlers.run(asked.run)
        about = [
            await handlers.query(run, query.head, query.relation, f"queries.{number}.")
            for number, query in enumerate(asked.queries)
        ]
        task = AskingMany(run, asked.k, asked.paths, asked.only_new)
        found = await handlers.run_task(task, tuple((one["head"], one["relation"]) for one in about))
        return JSONResponse({"results": [one | {"answers": answers} for one, answers in zip(about, found, strict=True)]})

    @router.get("/rules", response_model=schemas.RulesBody, responses=responses_of(404, 503, 504))
    async def list_rules(
        relation: RelationName,
        run: RunName = None,
        k: Annotated[int, Query(ge=1, le=MOST_RULES, description="Maximum number of rules.")] = 20,
    ) -> Response:
        """The rules that a run uses for a relation, over its dev queries, with how often they hold in the graph."""
        view = handlers.run(run)
        name = view.reasoner.names.relation_key(await handlers.relation(view, relation))
        found = await handlers.run_task(MiningRules(view, k), name)
        return JSONResponse({"run": view.name, "relation": name, "rules": found})

    @router.get("/paths", response_model=schemas.PathsBody, responses=responses_of(404, 503, 504))
    async def find_paths(
        head: EntityName,
        tail: EntityName,
        run: RunName = None,
        hops: Annotated[int, Query(ge=1, le=MOST_HOPS, description="Maximum number of facts in a path.")] = 3,
        limit: Limit = 10,
    ) -> Response:
        """Paths of known facts between two entities, shortest first, then those through the least busy entities."""
        view = handlers.run(run)
        ends = [view.dataset.entities[await handlers.entity(view, *one)] for one in ((head, "head"), (tail, "tail"))]
        return JSONResponse({"run": view.name} | await handlers.run_task(Connecting(view, hops, limit), tuple(ends)))


def _add_jobs(router: APIRouter, handlers: Handlers, jobs: Jobs) -> None:
    def found(job: str) -> Job:
        known = jobs.find(job)
        if known is None:
            raise RequestError(404, "unknown_job", "There is no such job, or it was forgotten.", field="job")
        return known

    @router.post("/complete", status_code=202, response_model=schemas.JobBody, responses=responses_of(404, 413, 503))
    async def start_complete(asked: schemas.CompleteRequest) -> Response:
        """Start a job that proposes missing facts. It takes turns with other requests; `jobs` has its progress."""
        run = handlers.run(asked.run)
        texts = enumerate(asked.relations)
        ids = [await handlers.relation(run, text, f"relations.{number}") for number, text in texts]
        try:
            job = jobs.start(run, [run.reasoner.names.relation_key(id_) for id_ in ids], asked.above)
        except OverloadedError as error:
            remedy = "Wait until one is finished, or cancel one."
            raise RequestError(503, "overloaded", f"{error}.".capitalize(), remedy=remedy, retry=True) from None
        return JSONResponse(job.to_dict(), status_code=202)

    @router.get("/jobs", response_model=schemas.JobsBody)
    async def list_jobs() -> Response:
        """The jobs of this server, oldest first."""
        return JSONResponse({"jobs": [job.to_dict() for job in jobs.all()]})

    @router.get("/jobs/{job}", response_model=schemas.JobBody, responses=responses_of(404))
    async def show_job(job: JobId) -> Response:
        """The progress of a job."""
        return JSONResponse(found(job).to_dict())

    @router.get("/jobs/{job}/facts", response_model=schemas.ProposedFactsBody, responses=responses_of(404, 409))
    async def list_proposed_facts(job: JobId, offset: Offset = 0, limit: Limit = 50) -> Response:
        """The facts that a finished job found, a page at a time."""
        known = found(job)
        if known.status != "finished":
            raise RequestError(409, "not_finished", f"The job is {known.status}.", remedy="Ask for its progress.", field="job")
        rows = await asyncio.to_thread(known.rows, offset, limit)
        return JSONResponse({"job": known.id, "total": known.facts, "offset": offset, "facts": rows})

    @router.delete("/jobs/{job}", response_model=schemas.JobBody, responses=responses_of(404))
    async def cancel_job(job: JobId) -> Response:
        """Cancel a job; if it is over, forget it and its facts."""
        known = found(job)
        jobs.remove(known) if known.is_over else known.cancel()
        return JSONResponse(known.to_dict())
