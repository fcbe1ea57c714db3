"""The files in deploy/: they are valid, agree with each other and with the server, and their commands work."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

from ms_crf.cli import train
from ms_crf.cli.serve import parser
from ms_crf.server.limits import Limits

import pytest

from support.documents import console
from support.paths import ROOT
from support.servers import SECONDS, serving
from support.trainings import files

DEPLOY = ROOT / 'deploy'
PAGE = ROOT / 'docs' / 'quickstart' / 'production_server.md'
RUN = '/srv/ms-crf/runs/current'
TOKEN = 'a-token-for-tests'


def text_of(name):
    return (DEPLOY / name).read_text(encoding='utf-8')


def documents(name):
    """The documents of a YAML file in deploy/."""
    yaml = pytest.importorskip('yaml', reason='PyYAML is missing: pip install -r requirements-dev.txt')
    return list(yaml.safe_load_all(text_of(name)))


def instructions():
    """The instructions of the Dockerfile as (instruction, argument), with continued lines joined."""
    joined = re.sub(r'\\\n\s*', '', text_of('Dockerfile'))
    lines = [line for line in joined.splitlines() if line and not line.startswith('#')]
    return [tuple(line.split(None, 1)) for line in lines]


def unit():
    """The systemd unit; each key occurs once in its section."""
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str
    found.read_string(text_of('ms-crf.service'))
    return found


def directives():
    """The directives of nginx.conf as {name: arguments}, for names that occur once."""
    lines = re.findall(r'^ *([a-z_]+) +([^;{}#]+);', text_of('nginx.conf'), re.M)
    return {name: value for name, value in lines if [other for other, _ in lines].count(name) == 1}


def options(words):
    """The parsed options of an `ms-crf serve` command line, given as a list of words."""
    assert words[0].rpartition('/')[2] == 'ms-crf' and words[1] == 'serve', words
    return parser().parse_args(words[2:])


def command_of_image():
    """The words of the command that the image runs by default."""
    found = dict(instructions())
    return json.loads(found['ENTRYPOINT']) + json.loads(found['CMD'])


def test_deploy_all_files_are_known_and_explained():
    names = {path.name for path in DEPLOY.iterdir() if path.name not in ('token', 'tls')}         # a user's secrets
    assert names == {'Dockerfile', 'docker-compose.yml', 'nginx.conf', 'ms-crf.service', 'kubernetes.yaml'}
    page = PAGE.read_text(encoding='utf-8')
    assert all(f'`deploy/{name}`' in page for name in names)


def test_deploy_the_image_copies_what_exists_and_installs_known_extras():
    known = {'FROM', 'RUN', 'WORKDIR', 'COPY', 'USER', 'EXPOSE', 'HEALTHCHECK', 'ENTRYPOINT', 'CMD'}
    assert {name for name, _ in instructions()} == known
    for name, argument in instructions():
        if name == 'COPY' and not argument.startswith('--from'):
            for source in argument.split()[:-1]:
                assert list(ROOT.glob(source)), source
    extras = re.search(r'\*\.whl\)\[([a-z,]+)\]', text_of('Dockerfile'))[1].split(',')
    declared = (ROOT / 'pyproject.toml').read_text(encoding='utf-8')
    for extra in extras:
        [file] = re.findall(rf'^optional-dependencies\.{extra} = {{file = \["([^"]+)"\]}}$', declared, re.M)
        assert (ROOT / file).exists()
    used = re.findall(r'(?:files?|version|readme) = \W*(?:file = \[)?"([^"]+\.(?:txt|md))"', declared)
    assert used and all(file.startswith('requirements') or file == 'README.md' for file in used)
    python = re.search(r'^FROM python:3\.(\d+)', text_of('Dockerfile'), re.M)[1]
    assert f'Python :: 3.{python}"' in declared


def test_deploy_services_listen_where_others_ask():
    image, service = options(command_of_image()), options(shlex.split(unit()['Service']['ExecStart']))
    assert (image.host, image.port) == ('0.0.0.0', service.port) == ('0.0.0.0', parser().get_default('port'))
    assert service.host == parser().get_default('host') == '127.0.0.1'
    assert image.run == service.run == RUN
    found = dict(instructions())
    assert found['EXPOSE'] == str(image.port)
    assert f'http://127.0.0.1:{image.port}/readyz' in found['HEALTHCHECK']
    assert f'server ms-crf:{image.port};' in text_of('nginx.conf')
    assert f'replace ms-crf:{image.port} with {service.host}:{service.port}' in text_of('nginx.conf')


def test_deploy_compose_agrees_with_the_image():
    [compose] = documents('docker-compose.yml')
    server, nginx = compose['services']['ms-crf'], compose['services']['nginx']
    image = options(command_of_image())
    assert (DEPLOY / server['build']['context'] / server['build']['dockerfile']).resolve() == DEPLOY / 'Dockerfile'
    assert server['expose'] == [str(image.port)]
    assert server['volumes'] == [f'../runs:{os.path.dirname(RUN)}:ro']
    [secret] = server['secrets']
    assert image.token_file == f'/run/secrets/{secret}' and compose['secrets'] == {secret: {'file': './token'}}
    assert int(server['stop_grace_period'].removesuffix('s')) > Limits.drain
    assert nginx['depends_on'] == {'ms-crf': {'condition': 'service_healthy'}}
    mounted = dict(volume.split(':')[:2] for volume in nginx['volumes'])
    assert mounted['./nginx.conf'] == '/etc/nginx/nginx.conf'
    assert {os.path.dirname(path) for path in re.findall(r'ssl_certificate\w* (\S+);', text_of('nginx.conf'))} == {
        mounted['./tls']}
    ports = re.findall(r'listen (\d+)', text_of('nginx.conf'))
    assert nginx['ports'] == [f'{port}:{port}' for port in ports] == ['80:80', '443:443']


def test_deploy_nginx_has_the_limits_of_the_server():
    found = directives()
    seconds = {name: float(value[:-1]) for name, value in found.items() if re.fullmatch(r'\d+s', value)}
    assert found['client_max_body_size'] == str(Limits.max_body)
    assert seconds['client_body_timeout'] == seconds['client_header_timeout'] == Limits.slow
    assert seconds['keepalive_timeout'] < Limits.slow and seconds['proxy_read_timeout'] > Limits.timeout
    page = PAGE.read_text(encoding='utf-8')
    for name, option in (('client_max_body_size', 'max_body'), ('proxy_read_timeout', 'timeout'),
                         ('client_body_timeout', 'slow')):
        value = f'{getattr(Limits, option):g}' if option != 'max_body' else str(Limits.max_body)
        assert f'| `{name} {found[name]}` | `--{option.replace("_", "-")} {value}` |' in page


def test_deploy_kubernetes_agrees_with_the_image():
    deployment, service = documents('kubernetes.yaml')
    pod = deployment['spec']['template']['spec']
    [container] = pod['containers']
    image = options(json.loads(dict(instructions())['ENTRYPOINT']) + container['args'])
    [port] = container['ports']
    assert port['containerPort'] == image.port == service['spec']['ports'][0]['port']
    assert service['spec']['ports'][0]['targetPort'] == port['name']
    labels = deployment['spec']['template']['metadata']['labels']
    assert labels == deployment['spec']['selector']['matchLabels'] == service['spec']['selector']
    assert image.run == RUN
    mounts = {mount['name']: mount['mountPath'] for mount in container['volumeMounts']}
    assert set(mounts) == {volume['name'] for volume in pod['volumes']}
    assert mounts['runs'] == os.path.dirname(RUN) and os.path.dirname(image.token_file) == mounts['token']
    [create] = [command for command, _ in console(PAGE) if command.startswith('kubectl create secret')]
    assert f'--from-file={os.path.basename(image.token_file)}=' in create and create in text_of(
        'kubernetes.yaml').splitlines()[0]
    assert f'--uid {pod["securityContext"]["runAsUser"]} ' in text_of('Dockerfile')
    assert f'chown {pod["securityContext"]["runAsUser"]} ' in PAGE.read_text(encoding='utf-8')
    sleep = float(container['lifecycle']['preStop']['exec']['command'][1])
    assert pod['terminationGracePeriodSeconds'] > sleep + Limits.drain
    assert {container[name]['httpGet']['port'] for name in ('startupProbe', 'readinessProbe', 'livenessProbe')} == {
        port['name']}


def test_deploy_the_unit_reloads_and_stops_gracefully():
    service = unit()['Service']
    assert service['ExecReload'] == '/bin/kill -HUP $MAINPID'
    assert service['KillMode'] == 'mixed'        # the default mode also sends SIGTERM to the model processes
    assert int(service['TimeoutStopSec']) > Limits.drain
    assert service['RestartPreventExitStatus'] == '2'
    name, source = service['LoadCredential'].split(':')
    assert options(shlex.split(service['ExecStart'])).token_file == f'${{CREDENTIALS_DIRECTORY}}/{name}'
    assert f'sudo tee {source} ' in PAGE.read_text(encoding='utf-8')
    assert service['WorkingDirectory'] == f'/var/cache/{service["CacheDirectory"]}'


def test_deploy_systemd_accepts_the_unit(tmp_path):
    if shutil.which('systemd-analyze') is None:
        pytest.skip('systemd is missing')
    copy = tmp_path / 'ms-crf.service'
    copy.write_text(text_of('ms-crf.service').replace('/opt/ms-crf/bin/ms-crf', sys.executable), encoding='utf-8')
    result = subprocess.run(['systemd-analyze', 'verify', str(copy)], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout + result.stderr) == (0, '')


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """An opener's handler that does not follow redirections, so they are returned as answers."""

    def redirect_request(self, *_):
        return None


def get(address, token=None, body=None, context=None):
    """Sends a request; returns status code, headers and body of the answer."""
    headers = {'Content-Type': 'application/json', **({'Authorization': f'Bearer {token}'} if token else {})}
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), NoRedirect)
    try:
        with opener.open(urllib.request.Request(address, body, headers), timeout=SECONDS) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


@pytest.fixture(scope='module')
def installed(run, corpora, tmp_path_factory):
    """A folder with two runs, a link to the first run, and a token.

    It stands in for `/srv/ms-crf` and for the credentials directory of systemd.
    """
    folder = tmp_path_factory.mktemp('installed')
    shutil.copytree(run, folder / 'runs' / 'first')
    assert train.main([*files(corpora), '--model', 'hmm', '--add', '5', '--save', str(folder / 'runs' / 'second')]) == 0
    (folder / 'runs' / 'current').symlink_to('first')
    (folder / 'token').write_text(TOKEN + '\n')
    return folder


@pytest.fixture(scope='module')
def server(installed):
    """A server started with the command of the systemd unit, on a free port."""
    words = shlex.split(unit()['Service']['ExecStart'])[2:]
    at = words.index('--port')
    del words[at:at + 2]
    words = [word.replace('/srv/ms-crf', str(installed)).replace('${CREDENTIALS_DIRECTORY}', str(installed))
             for word in words]
    with serving(*words, '--splitter', 'blanks') as server:
        yield server


@pytest.mark.slow
def test_deploy_probes_are_answered(server):
    """The probes of Kubernetes and the health check of the image succeed, without a token.

    Kubernetes uses the address of the pod as Host.
    """
    deployment, _ = documents('kubernetes.yaml')
    [container] = deployment['spec']['template']['spec']['containers']
    for name in ('startupProbe', 'livenessProbe', 'readinessProbe'):
        path = container[name]['httpGet']['path']
        assert server.ask('GET', path, Host='10.0.0.7:8000')[0] == 200, name
    check = json.loads(re.search(r'CMD (\[.*\])', dict(instructions())['HEALTHCHECK'])[1])
    assert check[0] == 'python'
    here = [sys.executable, *(word.replace('127.0.0.1:8000', f'127.0.0.1:{server.port}') for word in check[1:])]
    assert subprocess.run(here, timeout=SECONDS).returncode == 0
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    nobody = [word.replace(f':{server.port}', f':{port}') for word in here]
    assert subprocess.run(nobody, timeout=SECONDS, stderr=subprocess.DEVNULL).returncode != 0


@pytest.mark.slow
def test_deploy_the_server_answers_the_requests_of_the_page(server):
    shown = {command: lines for command, lines in console(PAGE) if command.startswith('curl http://127.0.0.1:8000/')}
    assert len(shown) == 2
    for command, lines in shown.items():
        words = shlex.split(command.replace('$(cat token)', TOKEN))
        path = words[1].removeprefix('http://127.0.0.1:8000')
        headers = dict(words[at + 1].split(': ') for at, word in enumerate(words) if word == '-H')
        body = words[words.index('-d') + 1] if '-d' in words else None
        names = {name.replace('-', '_'): value for name, value in headers.items()}
        status, _, data = server.ask('POST' if body else 'GET', path, body, **names)
        expected = json.loads(lines[0])
        assert (status, json.loads(data).keys()) == (200, expected.keys())
        if body is None:
            assert json.loads(data) == expected
        else:
            [sentence], [other] = expected['sentences'], json.loads(data)['sentences']
            assert sentence['tokens'] == other['tokens'] and sentence.keys() == other.keys()
            names.pop('Authorization')
            assert server.ask('POST', path, body, **names)[0] == 401


@pytest.mark.slow
def test_deploy_the_command_of_the_unit_reloads_the_run_of_the_link(installed, server):
    """After the link changes with the page's `ln` command, the unit's ExecReload command loads the other run."""
    before = server.ask('GET', '/v1/model', Authorization=f'Bearer {TOKEN}')[1]['MS-CRF-Model']
    [link] = [command for command, _ in console(PAGE) if command.startswith('ln ')]
    link = [{'names': 'second', 'runs/current': str(installed / 'runs' / 'current')}.get(word, word)
            for word in shlex.split(link)]
    assert subprocess.run(link, timeout=SECONDS).returncode == 0
    reload = unit()['Service']['ExecReload'].replace('$MAINPID', str(server.process.pid))
    assert subprocess.run(shlex.split(reload), timeout=SECONDS).returncode == 0
    server.wait_for('the model was reloaded')
    after = server.ask('GET', '/v1/model', Authorization=f'Bearer {TOKEN}')[1]['MS-CRF-Model']
    assert before != after


@pytest.fixture(scope='module')
def proxy(server, tmp_path_factory):
    """nginx with `deploy/nginx.conf` in front of the server: the HTTP and HTTPS addresses, and the certificate."""
    nginx, openssl = shutil.which('nginx') or shutil.which('nginx', path='/usr/sbin'), shutil.which('openssl')
    if nginx is None or openssl is None:
        pytest.skip('nginx or openssl is missing')
    folder = tmp_path_factory.mktemp('nginx')
    key, certificate = folder / 'privkey.pem', folder / 'fullchain.pem'
    subprocess.run([openssl, 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', certificate,
                    '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'],
                   check=True, capture_output=True, timeout=SECONDS)
    ports = []
    for _ in range(2):
        with socket.create_server(('127.0.0.1', 0)) as free:
            ports.append(free.getsockname()[1])
    text = text_of('nginx.conf')
    for former, new in (('ms-crf:8000', f'127.0.0.1:{server.port}'), ('/etc/nginx/tls', str(folder)),
                        ('listen 80;', f'listen 127.0.0.1:{ports[0]};'), ('pid /tmp', f'pid {folder}'),
                        ('listen 443 ssl;', f'listen 127.0.0.1:{ports[1]} ssl;'),
                        ('worker_processes auto', 'worker_processes 1')):
        assert former in text
        text = text.replace(former, new)
    for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'):        # the default folders are not writable
        text = text.replace('http {', f'http {{ {kind}_temp_path {folder}/{kind};')
    if os.geteuid() == 0:                        # workers of another user could not write into the test's folder
        text = f'user root;\n{text}'
    (folder / 'nginx.conf').write_text(text)
    command = [nginx, '-c', str(folder / 'nginx.conf'), '-p', str(folder), '-e', 'stderr']
    tested = subprocess.run([*command, '-t'], capture_output=True, text=True, timeout=SECONDS)
    assert tested.returncode == 0 and 'test is successful' in tested.stderr, tested.stderr
    with subprocess.Popen([*command, '-g', 'daemon off;'], stderr=subprocess.PIPE) as process:
        try:
            yield f'http://localhost:{ports[0]}', f'https://localhost:{ports[1]}', certificate
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=SECONDS)


@pytest.mark.slow
def test_deploy_nginx_passes_requests_over_tls(proxy):
    http, https, certificate = proxy
    context = ssl.create_default_context(cafile=certificate)
    end = time.monotonic() + SECONDS
    while True:
        try:
            status, _, body = get(f'{https}/readyz', context=context)
            break
        except OSError:                          # nginx does not listen yet
            assert time.monotonic() < end
            time.sleep(.1)
    assert (status, json.loads(body)) == (200, {'status': 'ready'})
    status, headers, _ = get(f'{http}/v1/model')
    assert (status, headers['Location']) == (301, 'https://localhost/v1/model')
    body = json.dumps({'tokens': ['to', 'Xan']}).encode()
    assert get(f'{https}/v1/tag', None, body, context)[0] == 401
    status, headers, answer = get(f'{https}/v1/tag', TOKEN, body, context)
    assert status == 200 and json.loads(answer)['sentences'][0]['tokens'] == ['to', 'Xan']
    assert headers['MS-CRF-Model'] and headers['Strict-Transport-Security']
    for path, internal in (('/v1/reload', b'{}'), ('/metrics', None)):
        assert get(https + path, TOKEN, internal, context)[0] == 404
    just = json.dumps({'tokens': ['a'], 'splitter': ''}).encode()
    just += b' ' * (Limits.max_body - len(just))
    assert get(f'{https}/v1/tag', TOKEN, just, context)[0] == 422            # invalid, but not too large
    assert get(f'{https}/v1/tag', TOKEN, just + b' ', context)[0] == 413
