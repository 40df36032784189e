# make demo   a virtual environment, the audit of the shipped segments into ./lake, what is in it, and report.html
# make test   everything that is tested        make lint   ruff, mypy, mkdocs        make clean   removes what these made
# make test-fast  what needs neither Spark nor brokers, nor another process that takes long to start
# make soak   hours: every case of what `make test` chooses some of by a seed (the tests marked `soak`), laws by
#             hypothesis with 20 times the examples (those marked `law`). SOAK_TESTS="-k maintain" shortens it.
#             Only here: all releases, logs, recordings, seeds and cuts of the laws over logs, of which each run of
#             `make test` takes others; each command in each form over large, long and hostile lakes;
#             clearing up, the next night and upkeep after a kill at every commit point; nights that are
#             disturbed hundreds of times, by Spark as well; ten nights in one lake; a rebuild
#             killed before every table; every size of a full disk; a lake in a Hive metastore; upkeep by Spark, but for
#             two tables; Spark's nights after a log was cut back; audits by Spark's tasks of all nights of both
#             coordinators; nights of each of two releases, and those around the expiry (`make test` has one of the four); state
#             logs of all releases; two of three coordinators that 3.9.2 can have; a broker that is killed; each view,
#             function and question by Spark over each lake, and all of them as `SHOW TABLES` makes them; two of the
#             three parts of docs/python.md for Spark; whole rebuilds and upkeep that stall; a lake that S3 makes whole;
#             upkeep of all tables there and beside readers; the notebook on Spark as Jupyter runs it; most pairs of
#             releases that are compared, and a comparison of five logs at once (`make test` has two); all tests but
#             one in each line of IN_TURN (tests/chosen.py).
# make kafka-watch   what a Kafka release (the newest on Maven; KAFKA_WATCH_ARGS="--release 4.4.0") writes or takes as a
#             default that we do not know. Exit code of python -m tests.kafka_watch: 0 nothing, 1 differences
# make docs  docs/tables.md: every table, view and function, from the schemas
# make bench  how fast it is, against others (benchmarks/README.md; needs Go, too)
# A fresh machine needs Python 3.11, Java 17 and make. A first run downloads Spark (~400 MB) and Delta's jars (~14 MB).
# The tests start real brokers: 40 MB of Kafka's jars for each of three releases, downloaded once, too, and
# 50 MB of their classes as brokers load them, which the first broker of each writes. So do the first tests with Spark:
# 200 MB of its classes, in .venv. The report is looked
# at in Chromium: where there is none, and apt-get may install it, `make test` does.

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do command -v $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
LAKE ?= ./lake
# Bytecode is kept, also where the environment says otherwise: each process of the tests reads them in 7 s of CPU with
# it, in 18 s without, and each command that they start compiles all that it imports.
test test-fast soak: export PYTHONDONTWRITEBYTECODE =
# Three processes on two cores, because a third of the time is waiting for brokers and browsers. The first one has the
# Spark session; a file's tests share what its fixtures have made.
PYTEST_ARGS ?= -n 3 --dist loadfile

# Debian's names for it, then others'.
BROWSER := $(shell for name in chromium chromium-browser google-chrome; do command -v $$name && break; done)

.PHONY: demo test test-fast browser soak kafka-watch docs bench constraints lint ruff-check ruff-format mypy site clean
.DELETE_ON_ERROR:

demo: $(VENV)/.installed
	@$(BIN)/kgroups demo --lake $(LAKE)
	@$(BIN)/kgroups report --lake $(LAKE) --output report.html

test: $(VENV)/.installed-test browser
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

test-fast: $(VENV)/.installed-test
	@$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not spark and not processes"

browser:
ifeq ($(BROWSER),)
	@test "$$(id -u)" = 0 && command -v apt-get > /dev/null || \
	  { echo "make: no chromium found, which the tests of the report need; install it (Debian: apt-get install chromium)" >&2; exit 1; }
	@echo "installing Chromium (once) ..."
	@apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium > /dev/null
endif

soak: $(VENV)/.installed-test
	@$(BIN)/python -m pytest $(PYTEST_ARGS) -m "soak or law" $(SOAK_TESTS)

kafka-watch: $(VENV)/.installed-test
	@$(BIN)/python -m tests.kafka_watch $(KAFKA_WATCH_ARGS)

docs: $(VENV)/.installed
	@$(BIN)/python -m docs.tables_page

bench: $(VENV)/.installed
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

lint: ruff-check ruff-format mypy site

ruff-check: $(VENV)/.installed-test
	$(BIN)/ruff check .

ruff-format: $(VENV)/.installed-test
	$(BIN)/ruff format --check .

# The documentation as pages, in build/site.
site: $(VENV)/.installed-test
	$(BIN)/mkdocs build --quiet --strict --site-dir build/site

mypy: $(VENV)/.installed-test
	$(BIN)/mypy

# The stamps: installed once, and again when pyproject.toml or constraints.txt (the versions that CI tests) changes. The
# package itself is installed in place.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(MAKE) --silent --no-print-directory machine-is-ready $(BIN)/python
	@echo "installing into $(VENV) (once) ..."
	@$(PIP_INSTALL) --editable '.[local,live]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt
	@$(MAKE) --silent --no-print-directory machine-is-ready $(BIN)/python
	@echo "installing into $(VENV), with what the tests need (once) ..."
	@$(PIP_INSTALL) --editable '.[local,test]'
	@touch $@ $(VENV)/.installed

# Rewrites constraints.txt from what is installed: remove .venv first for the newest versions that pyproject.toml allows,
# and empty the file but for its comments.
constraints: $(VENV)/.installed-test
	@grep '^#' constraints.txt > constraints.new
	@$(BIN)/python -m pip list --format=freeze --exclude-editable --exclude pip --exclude setuptools >> constraints.new
	@mv constraints.new constraints.txt

$(BIN)/python:
	@$(PYTHON) -m venv $(VENV)

.PHONY: machine-is-ready
machine-is-ready:
	@test -n "$(PYTHON)" || { echo "make: no python3 found; install Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is $$($(PYTHON) --version); Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) kgroups_spark/spark/java.py

clean:
	rm -rf $(VENV) build *.egg-info lake report.html spark-warehouse .mypy_cache .pytest_cache .ruff_cache .hypothesis
