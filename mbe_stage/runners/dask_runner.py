"""Run tasks on a Dask cluster: each worker gets a lease of roots for a while, and returns the results below them.

Dask's work stealing only moves tasks that have not begun. That does not help with a few long, uneven tasks
(distributed #6600). So each worker has one lease at a time, and a ledger in this process decides which (`leases`). If
there is nothing left to lend, the workers at it longest hand over roots that they have not begun. A worker may be lost
at any moment, or come late: its roots are lent again, and results that come twice are taken once.
"""

from __future__ import annotations

import logging
import math
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from mbe_stage.engines import get_engine
from mbe_stage.errors import ClusterLost, EngineUnavailable, InvalidArgument
from mbe_stage.options import Execution
from mbe_stage.run_limits import EmptyBlock
from mbe_stage.runners import lease_work
from mbe_stage.runners.fetching import MOST_AT_ONCE, Fetched, Fetching
from mbe_stage.runners.lease_work import Finished, HeldGraph, JobFacts, NotKept, Terms
from mbe_stage.runners.leases import Lease, Ledger, within
from mbe_stage.runners.parts import Part, PartMaker
from mbe_stage.runners.worker_stats import RankFacts, busy_shares
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import Task, ranges_of

log = logging.getLogger(__name__)

# Tasks per worker. With an engine that takes barriers they need not be small.
_TASKS_PER_WORKER = 64
_MOST_TASKS = 4096
_LEASE_SECONDS = 15.0
# A worker is not asked to hand over a lease that is younger: beginning takes time too.
_LEAST_LEASE_SECONDS = 0.5
# Share of the remaining time limit for a lease: begun roots are finished and returned before the limit.
_SHARE_OF_LIMIT = 0.9
# Blocks that a lease returns at least, if it finds that much.
_BLOCKS_OF_LEASE = 8
# How often workers are listed, and how long a first worker, or another after the last is lost, is waited for.
_LOOK_SECONDS = 0.25
_GRACE_SECONDS = 60.0
# After this many lease lengths, idle workers get its roots as well.
_LATE_AFTER = 6.0
_STOP_SECONDS = 5.0
_SOON_SECONDS = 0.01
# A worker without an answer for this long, transfers not counted, is asked again after a while.
_GREETING_SECONDS = 10.0
# When workers begin, they import the code that makes parts.
_BEGIN_SECONDS = 30.0
_SILENT_SECONDS = 30.0
_LEAST_BYTES_A_SECOND = 10e6
_FETCH_SECONDS = 30.0
_LOST = "was lost; the roots that it had were lent again"
_NOT_FETCHED = "what it had found could not be fetched; its roots were lent again"


@dataclass(slots=True)
class _Run:
    """State shared by all leases of a run, and the worker of each.

    `limit` is the end of its time, by `time.perf_counter`. Workers that make parts are in `proofs`. A worker that could
    not keep a part is in `sending`: it sends results for the rest of the run. A worker without the graph after
    `send_seconds` is asked again later.
    """

    job: str
    search: JobFacts
    graph: Any
    execution: Execution
    terms: Terms
    limit: float = math.inf
    threads: Mapping[str, int] = field(default_factory=dict)
    proofs: dict[str, Any] = field(default_factory=dict)
    sending: set[str] = field(default_factory=set)
    at_work: dict[str, int] = field(default_factory=dict)
    futures: dict[int, Any] = field(default_factory=dict)
    handing_over: set[int] = field(default_factory=set)
    silent: dict[str, float] = field(default_factory=dict)
    send_seconds: float = 0.0

    @property
    def held(self) -> HeldGraph | None:
        """The graph, if only workers have its edges."""
        return self.graph if isinstance(self.graph, HeldGraph) else None


class DaskRunner:
    """Runs the tasks of any problem on the workers of a cluster: `mbe_stage.options.Runner`.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster. Each worker uses all its threads, unless `Execution.threads` says otherwise, and has one
        lease at a time.
    lease_seconds : float
        Length of a lease.
    shares_machine : bool
        True if all workers are on this machine, and share the compile cache of this process.

    Attributes
    ----------
    ranks : list of RankFacts
        Statistics of each worker in the last search, in order of their first results.
    seconds : float
        Duration of that search, from the first lease to the last.
    warnings : list of str
        Workers lost in that search, and workers that could not keep their results.

    Notes
    -----
    The results of a lease are in the memory of a worker, and then of this process, before they are handed on. The
    memory budget bounds each; larger results are refused. Results are fetched one at a time, with up to three more
    fetches if the ones under way are slow, since their workers may hang.

    Dask's settings apply: if the client uses TLS, so does all of this.
    """

    TAKES_BARRIER: ClassVar[bool] = True
    MAKES_PARTS: ClassVar[bool] = True

    def __init__(self, client: Any, *, lease_seconds: float = _LEASE_SECONDS, shares_machine: bool = False) -> None:
        if not lease_seconds > 0:
            raise InvalidArgument(f"lease_seconds is {lease_seconds}: expected a number above 0")
        self._client = client
        self._lease_seconds = lease_seconds
        self.shares_machine = shares_machine
        self.ranks: list[RankFacts] = []
        self.warnings: list[str] = []
        self.seconds = 0.0

    @property
    def busy(self) -> tuple[float, ...]:
        """Share of the last search that each worker was at work."""
        return busy_shares(self.ranks, self.seconds)

    def device(self) -> str:
        """Name of what the last search ran on."""
        kinds = sorted({rank.device for rank in self.ranks if rank.device})
        n = len(self.ranks)
        return f"{n} Dask worker{'' if n == 1 else 's'}: {'; '.join(kinds)}"

    def load(self, problem: str) -> None:
        """Load the machine code of a problem's engine `cpu`, in the workers and here, as far as the cache has it.

        Then the first search need not wait for it. If a worker fails or takes long, the search loads it instead.

        Raises
        ------
        InvalidArgument
            No such problem, or it has no such engine.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="load") as here:
            loaded = here.submit(lease_work.load, problem)
            answers = self.asked(lease_work.load_beside, problem, workers=self._threads(), seconds=_BEGIN_SECONDS)
            loaded.result()
        for worker, answer in answers.items():
            if isinstance(answer, BaseException):
                log.warning("worker %s could not load the engine (%r): a search will", worker, answer)

    def run(
        self,
        problem: str,
        engine: str,
        graph: Any,
        query: Any,
        execution: Execution,
        detail: Any,
        tasks: Iterable[Task] | None = None,
        barrier: Barrier | None = None,
        parts: PartMaker | None = None,
    ) -> Iterator[Any]:
        """Yield the blocks of some tasks, or of all, in any order; those of a lease once it is complete.

        Parameters
        ----------
        problem, engine : str
            Their names, which every worker knows.
        graph, query, execution, detail
            As for an engine. Budgets apply to each worker.
        tasks : iterable of Task, optional
            Made by the engine's `tasks_of` for the same graph and query.
        barrier : Barrier, optional
            A request is answered by an empty block with the remaining tasks, leased ones included.
        parts : PartMaker, optional
            Workers that can make parts return a lease as one `Part` in place of its blocks.

        Raises
        ------
        ClusterLost
            There is no worker, the scheduler is gone, or certain roots always lose their worker.
        EngineUnavailable
            A worker has other versions of the packages that matter, or the engine cannot run there.
        """
        self.ranks, self.seconds, self.warnings = [], 0.0, []
        alone = replace(execution, runner=None, max_bicliques=None, max_cliques=None, time_limit_seconds=None)
        terms = Terms(self._lease_seconds, _BLOCKS_OF_LEASE * execution.block_bytes)
        limit = time.perf_counter() + (execution.time_limit_seconds or math.inf)
        search = JobFacts(problem, engine, query, detail, parts)
        # Before the first results, workers are awaited, greeted and sent the graph: progress is reported meanwhile.
        yield EmptyBlock()
        n_workers = len(self.awaited_workers())
        with self._begun(_Run(uuid.uuid4().hex, search, graph, alone, terms, limit)) as run:
            # Workers load and prepare while the work is cut here.
            self._greet(run, self._threads())
            all_tasks = yield from self._tasks_of(run, min(_MOST_TASKS, _TASKS_PER_WORKER * n_workers))
            ledger = Ledger(all_tasks if tasks is None else _of_these(all_tasks, tuple(tasks)))
            with closing(Fetching()) as fetching:
                yield from self._leased(run, ledger, barrier, fetching)

    def _tasks_of(self, run: _Run, n: int) -> Generator[EmptyBlock, None, Sequence[Task]]:
        """Cut the work here, or in a worker if only workers have the graph; these may have to compile first."""
        answers: dict[str, Any] = dict.fromkeys(run.threads, "was lost")
        for worker in (each for each in (3 * list(answers) if run.held else ()) if each in self._threads()):
            seconds = min(_SILENT_SECONDS + run.send_seconds, max(run.limit - time.perf_counter(), _LOOK_SECONDS))
            answered = self.asked(lease_work.tasks_of, run.job, n, workers=[worker], seconds=seconds)
            if isinstance(answer := answered.get(worker, "no answer"), list):
                return answer
            answers[worker] = answer
            # The search may end here, at its time limit.
            yield EmptyBlock()
        if run.held is not None:
            run.graph = run.held.read_here(f"no worker could cut the work: {answers}")
        return get_engine(run.search.problem, run.search.engine).tasks_of(run.graph, run.search.query, n)

    def _leased(self, run: _Run, ledger: Ledger, barrier: Barrier | None, fetching: Fetching) -> Iterator[Any]:
        ranks: dict[str, RankFacts] = {}
        begun = looked = time.perf_counter()
        last, is_marked = None, False
        while not ledger.is_over:
            now = time.perf_counter()
            if now - looked > _LOOK_SECONDS or not run.threads:
                self._look(run, ledger)
                looked = now
            self._lend(run, ledger, fetching, now)
            if (here := fetching.next(_LOOK_SECONDS)) is None:
                marker = None if is_marked and now <= run.limit else self._at_barrier(ledger, barrier, last)
                is_marked |= marker is not None
                # A marker has no results, and is false.
                yield EmptyBlock(ledger.work_done) if marker is None else marker
                continue
            number, fetched = here
            lease, finished = self._taken(run, ledger, number, fetched)
            if lease is None or finished is None or not ledger.accept(number, finished.remaining):
                continue
            self._book(ranks.setdefault(lease.worker, RankFacts(lease.worker)), finished)
            self.ranks, self.seconds = list(ranks.values()), time.perf_counter() - begun
            for last in _blocks_of(finished, ledger.work_done):
                yield last
            marker = self._at_barrier(ledger, barrier, last)
            is_marked = marker is not None
            if is_marked:
                yield marker
        self.seconds = time.perf_counter() - begun

    @staticmethod
    def _at_barrier(ledger: Ledger, barrier: Barrier | None, last: Any) -> Any:
        """Turn a block into a barrier's marker if one is requested. Between two leases every block can be one."""
        if barrier is None or not barrier.is_requested or last is None or ledger.is_over:
            return None
        barrier.reached()
        return replace(last.first(0), work_done=ledger.work_done, remaining=ledger.remaining())

    @staticmethod
    def _book(rank: RankFacts, finished: Finished) -> None:
        rank.device = finished.device
        rank.n_found += finished.n_found
        rank.n_bytes += finished.n_bytes
        rank.makes_parts |= finished.part is not None
        rank.n_leases += 1
        rank.busy_seconds += finished.seconds

    def _lend(self, run: _Run, ledger: Ledger, fetching: Fetching, now: float) -> None:
        """Give every idle worker a lease. If there is none, let it help others, or ask these to hand over."""
        idle = [worker for worker in run.threads if worker not in run.at_work]
        for n_before, worker in enumerate(idle):
            lease = ledger.lend(worker, len(run.threads), now, len(idle) - n_before)
            if lease is None:
                lease = ledger.lend_again(worker, now - _LATE_AFTER * self._lease_seconds, now)
            if lease is None:
                break
            self._submit(run, lease, fetching)
        if any(worker not in run.at_work for worker in idle) and not ledger.has_open:
            self._ask_to_hand_over(run, ledger, now)

    def _ask_to_hand_over(self, run: _Run, ledger: Ledger, now: float) -> None:
        asked = [
            lease
            for lease in ledger.leases
            if lease.number not in run.handing_over and now - lease.since > _LEAST_LEASE_SECONDS
        ]
        if not asked:
            return
        run.handing_over.update(lease.number for lease in asked)
        workers = sorted({lease.worker for lease in asked} & set(run.threads))
        self.asked(lease_work.hand_over, run.job, workers=workers, seconds=0.0)

    def _submit(self, run: _Run, lease: Lease, fetching: Fetching) -> None:
        threads = run.execution.threads or run.threads[lease.worker]
        seconds = max(_LEAST_LEASE_SECONDS, _SHARE_OF_LIMIT * (run.limit - time.perf_counter()))
        future = self._client.submit(
            lease_work.do_lease,
            run.job,
            lease.number,
            lease.tasks,
            replace(run.execution, threads=threads),
            replace(run.terms, seconds=min(run.terms.seconds, seconds)),
            proof=run.proofs.get(lease.worker),
            key=f"{run.job}-{lease.number}",
            workers=[lease.worker],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        run.at_work[lease.worker] = lease.number
        run.futures[lease.number] = future
        # The time for the most that all workers may hold.
        n_bytes = 0 if lease.worker in run.proofs else run.execution.memory_budget_bytes
        most_seconds = _FETCH_SECONDS + MOST_AT_ONCE * n_bytes / _LEAST_BYTES_A_SECOND
        future.add_done_callback(lambda done: fetching.ask(lease.number, done, most_seconds))

    def _taken(self, run: _Run, ledger: Ledger, number: int, fetched: Fetched) -> tuple[Lease | None, Finished | None]:
        """Results of a lease; none if it was lost with its worker, or its part could not be kept."""
        future = run.futures.pop(number, None)
        lease = next((each for each in ledger.leases if each.number == number), None)
        run.at_work = {worker: at for worker, at in run.at_work.items() if at != number}
        run.handing_over.discard(number)
        if future is None or lease is None:
            return None, None
        if fetched.error is not None:
            if not _is_of_the_cluster(fetched.error):
                raise fetched.error
            self._check_scheduler()
            log.info("worker %s: %s", lease.worker, fetched.error)
            self._warn(lease.worker, _LOST if future.status == "error" else _NOT_FETCHED)
            ledger.lose(lease.worker)
            return None, None
        finished = fetched.result
        if isinstance(finished, NotKept):
            self._warn(lease.worker, f"{finished.reason}; what it finds is sent here from now on")
            run.proofs.pop(lease.worker, None)
            run.sending.add(lease.worker)
            ledger.give_back(number)
            return None, None
        if finished is None:
            # The worker was restarted, or got another job since: it is greeted again.
            ledger.give_back(number)
            run.threads = {worker: n for worker, n in run.threads.items() if worker != lease.worker}
        return lease, finished

    def _warn(self, worker: str, what: str) -> None:
        """Log a warning, and keep it for the publication."""
        message = f"worker {worker}: {what}"
        log.warning("%s", message)
        if message not in self.warnings:
            self.warnings.append(message)

    def _look(self, run: _Run, ledger: Ledger) -> None:
        """List the workers. Lend the roots of lost ones again, and greet new ones."""
        there = self._threads()
        for worker in set(run.threads) - set(there):
            for lease in ledger.lose(worker):
                self._warn(worker, _LOST)
                run.futures.pop(lease.number, None)
            run.at_work.pop(worker, None)
        self._greet(run, there)
        if not run.threads:
            self.awaited_workers()

    def _greet(self, run: _Run, there: Mapping[str, int]) -> None:
        """Let new workers begin. Those that do not answer are asked again later."""
        now = time.perf_counter()
        run.threads = {worker: n for worker, n in run.threads.items() if worker in there}
        new = sorted(set(there) - set(run.threads) - {each for each, until in run.silent.items() if now < until})
        answering = self._begins(new, run) if new else []
        run.silent |= dict.fromkeys(set(new) - set(answering), now + _SILENT_SECONDS)
        run.threads = {worker: there[worker] for worker in (*run.threads, *answering)}

    def _begins(self, workers: list[str], run: _Run) -> list[str]:
        """Begin the job on some workers; return those that answer, have our versions, and have the graph."""
        answers = self.asked(lease_work.software, workers=workers, seconds=_GREETING_SECONDS)
        _check_software(answers)
        welcome = [worker for worker, answer in answers.items() if isinstance(answer, dict)]
        seconds = _BEGIN_SECONDS + len(pickle.dumps(run.search, protocol=5)) / _LEAST_BYTES_A_SECOND
        answers = self.asked(lease_work.begin_job, run.job, run.search, workers=welcome, seconds=seconds)
        for worker, answer in answers.items():
            if isinstance(answer, BaseException):
                log.warning("worker %s could not begin (%r): it is asked again later", worker, answer)
        proofs = {worker: answer for worker, answer in answers.items() if not isinstance(answer, BaseException)}
        self._let_make_parts(run, proofs)
        return self._give_graph(run, list(proofs))

    def _give_graph(self, run: _Run, waiting: list[str]) -> list[str]:
        """Give the graph to some workers; return those that have it then.

        It leaves this process once: each worker that has it gives it to one other at a time. Workers that cannot take
        it get it from here.
        """
        givers, from_here = list(run.threads), list[str]()
        if run.held is not None:
            waiting = sorted(waiting, key=lambda worker: worker != run.graph.holder)
        having = [] if givers else self._send_graph(run, waiting[:1])
        waiting = waiting if givers else waiting[1:]
        givers += having
        while waiting and givers:
            giver_of = dict(zip(waiting, givers, strict=False))
            waiting = waiting[len(giver_of) :]
            answers = self.asked(lease_work.take_graph, run.job, giver_of, workers=giver_of, seconds=run.send_seconds)
            for worker, giver in giver_of.items():
                if answers.get(worker) is True:
                    having.append(worker)
                    givers.append(worker)
                else:
                    log.info("worker %s cannot take the graph from %s (%r)", worker, giver, answers.get(worker))
                    from_here.append(worker)
                    givers.remove(giver)
        return having + self._send_graph(run, from_here + waiting)

    def _send_graph(self, run: _Run, workers: list[str]) -> list[str]:
        """Send the graph to some workers; return those that have it then. All but its holder need a held one read."""
        if run.held is not None and workers not in ([], [run.held.holder]):
            run.graph = run.held.read_here("workers cannot take the graph from each other")
        held = run.held
        graph = held.key if held is not None else pickle.dumps(run.graph, protocol=5) if workers else b""
        n_bytes = len(graph) if held is None else 8 * int(held.left_degrees.sum())
        run.send_seconds = max(run.send_seconds, seconds_for(n_bytes))
        kept = self.asked(lease_work.keep_graph, run.job, graph, workers=workers, seconds=run.send_seconds)
        return [worker for worker in workers if kept.get(worker) is True]

    @staticmethod
    def _let_make_parts(run: _Run, proofs: Mapping[str, Any]) -> None:
        """Let workers make parts if their files can be found here; log why the others send."""
        parts = run.search.parts
        if parts is None:
            return
        proven = parts.proven(proofs)
        for worker, proof in proofs.items():
            run.proofs.pop(worker, None)
            if worker in run.sending:
                continue
            if worker in proven:
                run.proofs[worker] = proof
            else:
                log.warning("worker %s: %s", worker, parts.what_is_sent(proof))

    def asked(
        self, function: Callable[..., Any], *given: Any, workers: Iterable[str], seconds: float
    ) -> dict[str, Any]:
        """Answers of workers within some seconds, failed imports included. The others hang, or are gone."""
        # Without a scheduler, Dask would log each question.
        workers = workers if self._client.status == "running" else ()
        run = partial(self._client.run, function, *given, on_error="return")
        asking = [_asking(partial(run, workers=[worker])) for worker in workers]
        # Listing the workers shows whether one without an answer is lost.
        found = (each.result() for each in wait(asking, seconds).done if each.exception() is None)
        return {worker: answer for of_one in found for worker, answer in of_one.items()}

    def _threads(self) -> dict[str, int]:
        """Number of threads of each worker present."""
        self._check_scheduler()
        try:
            # A scheduler that is stopped keeps its connections, and never answers.
            return dict(_asking(self._client.nthreads).result(_SILENT_SECONDS))
        # The last is what a client raises that notices the loss meanwhile.
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error) or f"for {_SILENT_SECONDS:g} s"
            raise ClusterLost(f"the scheduler does not answer ({reason}): start it again") from None

    def _check_scheduler(self) -> None:
        """Raise if the scheduler is gone: the client then loses all that the workers have."""
        if self._client.status != "running":
            raise ClusterLost(
                f"the scheduler is gone (the client is {self._client.status}): expected it to be there until all is "
                "found; start it again"
            )

    def awaited_workers(self) -> dict[str, int]:
        """The workers; waits for one if there are none."""
        waited = time.perf_counter()
        while not (there := self._threads()):
            if time.perf_counter() - waited > _GRACE_SECONDS:
                raise ClusterLost(
                    f"the cluster has had no worker for {_GRACE_SECONDS:.0f} s: expected one or more; start some"
                )
            time.sleep(_LOOK_SECONDS)
        return there

    @contextmanager
    def _begun(self, run: _Run) -> Iterator[_Run]:
        """A search whose graph the workers keep. At the end they drop their work, and the graph."""
        try:
            yield run
        finally:
            if self._client.status == "running":
                self._end(run)

    def _end(self, run: _Run) -> None:
        with suppress(OSError, TimeoutError, ClusterLost):
            there = sorted(set(run.threads) & set(self._threads()))
            left = [run.futures[number] for number in run.at_work.values() if number in run.futures]
            if left:
                self.asked(lease_work.stop_job, run.job, workers=there, seconds=_STOP_SECONDS)
                until = time.perf_counter() + _STOP_SECONDS
                while time.perf_counter() < until and not all(future.done() for future in left):
                    time.sleep(_SOON_SECONDS)
            self._client.cancel(left)
            self.asked(lease_work.end_job, run.job, workers=there, seconds=_STOP_SECONDS)


def seconds_for(n_bytes: int) -> float:
    """Return how long an answer may take whose bytes go from process to process."""
    return _GREETING_SECONDS + n_bytes / _LEAST_BYTES_A_SECOND


def _asking(question: Callable[[], Any]) -> Future[Any]:
    """Ask in a thread, which may wait longer than this process lives."""
    answer: Future[Any] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except Exception as error:  # noqa: BLE001 - raised where the answer is asked for
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    return answer


def _check_software(answers: Mapping[str, Any]) -> None:
    """Refuse workers with other versions than ours, or without mbe_stage."""
    ours = lease_work.software()
    for worker, answer in answers.items():
        if isinstance(answer, ImportError):
            raise EngineUnavailable(
                f"worker {worker} cannot import mbe_stage ({answer}): expected it to be installed there too, in "
                f"version {ours['mbe-stage']}"
            )
        for package, version in ours.items() if isinstance(answer, dict) else ():
            if answer.get(package) != version:
                raise EngineUnavailable(
                    f"worker {worker} has {package} {answer.get(package)}, and this process {version}: expected "
                    "the same, or results would differ; install one of them everywhere"
                )


def _blocks_of(finished: Finished, work_done: float) -> Iterator[Any]:
    """Results of a lease: its blocks, or the part made of them."""
    if finished.part is not None:
        yield Part(finished.n_found, finished.part, work_done)
    for text in finished.blocks:
        yield replace(pickle.loads(text), work_done=work_done)


def _is_of_the_cluster(error: BaseException | None) -> bool:
    """True if an error is about the cluster, and not about the work."""
    names = {"KilledWorker", "FutureCancelledError", "CancelledError", "FutureLostError", "NoValidWorkerError"}
    return isinstance(error, OSError | TimeoutError) or type(error).__name__ in names


def _of_these(all_tasks: Sequence[Task], wanted: Sequence[Task]) -> list[Task]:
    """Restrict all tasks to the wanted ones."""
    if wanted and all_tasks:
        ranges_of(wanted, all_tasks[0].roots)  # refuses those of other work
    return [part for task in all_tasks for part in within(task, wanted)]
