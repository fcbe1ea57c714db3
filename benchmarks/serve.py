"""Measures the server under load with wrk: python benchmarks/serve.py --run DIR --input FILE

Sentences per second at saturation are compared with `Tagger.tag` on all sentences at once, in a separate process; the
measurements alternate. Then single sentences are sent at half of the saturation rate, and the response times are
printed. Everything runs on one machine, so wrk takes a share of the cores. wrk is in the Debian package wrk.

With --mixed N the program sends N requests instead: valid requests of all forms, whose answers are compared with
`Tagger`, hostile requests, and interrupted requests. It reports whether memory stays constant.
"""

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ms_crf.formats.registry import read_corpus  # noqa: E402

import numpy as np  # noqa: E402
from contestants import ask, processor, start, stop  # noqa: E402

#: wrk sends the bodies of a file one after another, optionally with random pauses.
SCRIPT = """
local bodies, number, total = {}, 0, 0
for line in io.lines("%s") do bodies[#bodies + 1] = line end
wrk.method, wrk.headers["Content-Type"] = "POST", "application/json"
function init(args) math.randomseed(os.time()) number = math.random(#bodies) end
function request()
  number = number %% #bodies + 1
  return wrk.format(nil, "/v1/tag", nil, bodies[number])
end
%s
"""


class Server:
    """The server in a separate process, on a free port."""

    def __init__(self, run, *options):
        self.process = subprocess.Popen([sys.executable, '-m', 'ms_crf', 'serve', '--run', run, '--port', '0',
                                         *options], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        while 'is served at' not in line:
            if not line:
                sys.exit('the server has ended')
            line = self.process.stderr.readline()
        self.url = line.split()[-1]
        self.host, port = self.url[len('http://'):-1].rsplit(':', 1)
        self.port = int(port)

    def resident(self):
        """The resident memory of each process of the server, in bytes."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        connection.request('GET', '/metrics')
        text = connection.getresponse().read().decode()
        connection.close()
        return {name: float(size) for name, size in re.findall(r'resident_bytes{process="(\w+)"} (\S+)', text)}

    def stop(self):
        self.process.terminate()
        self.process.communicate()
        return self.process.returncode


def serve(name, arguments):
    """Answers each line on standard input with the seconds of a call of `Tagger.tag`."""
    from ms_crf import Tagger
    tagger = Tagger.load(arguments.run)
    sentences = [sentence.tokens for sentence in read_corpus(arguments.input)]
    for _ in range(60):                          # warm-up: the tagger compiles more shapes as it sees more text
        tagger.tag(sentences)
    print(1, flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        tagger.tag(sentences)
        print(time.perf_counter() - began, flush=True)


def load(server, bodies, connections, seconds, delay=None):
    """Runs wrk; returns requests per second, response times in ms by percentile, and messages on failed requests."""
    with tempfile.TemporaryDirectory() as folder:
        bodies_file, script = f'{folder}/bodies', f'{folder}/load.lua'
        Path(bodies_file).write_text('\n'.join(bodies) + '\n', encoding='utf-8')
        wait = '' if delay is None else f'function delay() return math.random(0, {2 * delay}) end'
        Path(script).write_text(SCRIPT % (bodies_file, wait), encoding='utf-8')
        shown = subprocess.run(['wrk', '-t', '1', '-c', str(connections), '-d', f'{seconds}s', '--latency', '--timeout',
                                '30s', '-s', script, server.url], check=True, capture_output=True, text=True).stdout
    rate = float(re.search(r'Requests/sec:\s+([\d.]+)', shown).group(1))
    units = {'us': .001, 'ms': 1, 's': 1000}
    times = {name: float(value) * units[unit] for name, value, unit in
             re.findall(r'^\s+(\d+)%\s+([\d.]+)(us|ms|s)$', shown, re.M)}
    failed = re.findall(r'(Non-2xx.*|Socket errors.*)', shown)
    return rate, times, failed


def bodies_of(sentences, size, raw):
    parts = [sentences[first:first + size] for first in range(0, len(sentences) - size + 1, size)]
    requests = [{'texts': [' '.join(tokens) for tokens in part]} if raw else {'sentences': part} for part in parts]
    return [json.dumps(request, ensure_ascii=False) for request in requests]


def rates(arguments):
    sentences = [sentence.tokens for sentence in read_corpus(arguments.input)]
    arguments.sizes = sorted({1, *arguments.sizes})
    bulk = start('bulk', '--run', arguments.run, '--input', arguments.input)
    bulk.stdout.readline()
    server = Server(arguments.run)
    found = {'Tagger.tag': [], **{size: [] for size in arguments.sizes}}
    bodies = {size: bodies_of(sentences, size, arguments.raw) for size in arguments.sizes}
    for size in arguments.sizes:                 # warm-up rounds
        load(server, bodies[size], 16, 1)
    for _ in range(arguments.rounds):
        found['Tagger.tag'].append(len(sentences) / np.median([ask(bulk, 'tag')[0] for _ in range(7)]))
        for size in arguments.sizes:
            rate, _, failed = load(server, bodies[size], 256 if size == 1 else 64, arguments.seconds)
            found[size].append(rate * size)
            if failed:
                server.stop()
                sys.exit(f'{size} sentences a request: {failed}')
    print(f'{processor()}, {os.cpu_count()} cores; {len(sentences)} sentences, {arguments.rounds} rounds of '
          f'{arguments.seconds} s\n')
    print('| | sentences/s, median (least–most) | of Tagger.tag |\n|---|---|---|')
    whole = np.median(found['Tagger.tag'])
    for name, values in found.items():
        what = name if isinstance(name, str) else f'server, {name} sentence{"s" * (name > 1)} a request'
        print(f'| {what} | {np.median(values):,.0f} ({min(values):,.0f}–{max(values):,.0f}) '
              f'| {np.median(values) / whole:.2f} |')
    half = np.median(found[1]) / 2
    connections = 64
    delay = max(1, round(1000 * connections / half))
    for attempt in range(4):                     # adjusts wrk's pauses until the rate is close to `half`
        rate, times, failed = load(server, bodies[1], connections, arguments.seconds, delay)
        if .95 < rate / half < 1.05 or attempt == 3:
            break
        delay = max(1, round(1000 * connections / half - (1000 * connections / rate - delay)))
    print(f'\nsingle sentences at {rate:,.0f} a second, half of saturation being {half:,.0f}: p50 {times["50"]:.1f} '
          f'ms, p99 {times["99"]:.1f} ms{"; " + "; ".join(failed) if failed else ""}')
    server.stop()
    stop({'bulk': bulk})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--run', required=True)
    parser.add_argument('--input', required=True, help='file of sentences: columns or JSON lines')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=int, default=10, help='duration of each load (default: %(default)s)')
    parser.add_argument('--sizes', type=int, nargs='+', default=[8, 32, 128],
                        help='sentences per request, in addition to 1 (default: 8 32 128)')
    parser.add_argument('--raw', action='store_true', help='send raw text, which the server splits, instead of tokens')
    parser.add_argument('--mixed', type=int, metavar='N', help='send N requests of all kinds, and check the answers')
    parser.add_argument('--seed', type=int, default=0, help='seed of the mixed requests')
    parser.add_argument('--contestant', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.run, arguments.input = os.path.abspath(arguments.run), os.path.abspath(arguments.input)
    if arguments.contestant:
        serve(arguments.contestant, arguments)
    elif arguments.mixed:
        from mixed_requests import mixed
        mixed(Server, arguments)
    else:
        rates(arguments)


if __name__ == '__main__':
    main()
