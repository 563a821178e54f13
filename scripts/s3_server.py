#!/usr/bin/python3
"""An S3 server for tests: OpenStack Swift with its S3 API, in one process, of Debian's python3-swift.

  s3_server.py FOLDER [--port N] [--bucket NAME] [--ready FILE] [--log FILE]

Keeps all data in FOLDER, so it may be killed and started again on the same folder and port. The key is
test:tester, the secret "testing", the region us-east-1. Signatures are checked. FILE gets the endpoint
once it serves. --log appends a line of JSON per finished request: method, path, query, status, and the
bytes that were received and sent. Exit 77: python3-swift is not installed.
"""
import argparse
import json
import os
import signal
import sys

KEY, SECRET = 'test:tester', 'testing'
PIPELINE = '''
[DEFAULT]
swift_dir = {folder}
log_level = ERROR
[pipeline:main]
pipeline = catch_errors gatekeeper listing_formats bulk s3api tempauth copy slo dlo versioned_writes symlink proxy-server
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
rate_limit_after_segment = 10000
[filter:dlo]
use = egg:swift#dlo
[filter:versioned_writes]
use = egg:swift#versioned_writes
[filter:symlink]
use = egg:swift#symlink
[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
'''


def build_ring(folder, name, port):
    from swift.common.ring import RingBuilder
    builder = RingBuilder(2, 1, 0)
    builder.add_dev({'id': 0, 'region': 1, 'zone': 1, 'ip': '127.0.0.1', 'port': port, 'device': 'disk', 'weight': 1,
                     'replication_ip': '127.0.0.1', 'replication_port': port})
    builder.rebalance()
    builder.get_ring().save(os.path.join(folder, name + '.ring.gz'))


def serve_parts(folder):
    """The three servers behind the proxy, each on a port of its own."""
    import eventlet
    from swift.account.server import AccountController
    from swift.container.server import ContainerController
    from swift.obj.server import ObjectController
    os.makedirs(os.path.join(folder, 'devices', 'disk', 'tmp'), exist_ok=True)
    conf = {'devices': os.path.join(folder, 'devices'), 'swift_dir': folder, 'mount_check': 'false',
            'log_level': 'ERROR', 'fallocate_reserve': '0'}
    listening = {}
    for name in ('account', 'container', 'object'):
        listening[name] = eventlet.listen(('127.0.0.1', 0))
        build_ring(folder, name, listening[name].getsockname()[1])
    for name, controller in (('account', AccountController), ('container', ContainerController),
                             ('object', ObjectController)):
        eventlet.spawn(serve, listening[name], controller(conf))


def serve(sock, app):
    import eventlet.wsgi
    from swift.common.http_protocol import SwiftHttpProtocol
    from swift.common.utils import NullLogger
    eventlet.wsgi.server(sock, app, NullLogger(), protocol=SwiftHttpProtocol, keepalive=True, log_output=False)


class Cache:
    """What Swift otherwise asks memcached for."""

    def __init__(self):
        self.kept = {}

    def get(self, key, **_):
        return self.kept.get(key)

    def set(self, key, value, **_):
        self.kept[key] = value

    def incr(self, key, delta=1, **_):
        self.kept[key] = self.kept.get(key, 0) + delta
        return self.kept[key]

    def decr(self, key, delta=1, **_):
        return self.incr(key, -delta)

    def delete(self, key, **_):
        self.kept.pop(key, None)


def logged(app, path):
    """`app`, which writes down what it has answered once the answer is sent."""
    def answer(env, start_response):
        said = []

        def start(status, *rest, **more):
            said.append(int(status.split()[0]))
            return start_response(status, *rest, **more)
        sent, asked = 0, {'method': env['REQUEST_METHOD'], 'path': env['PATH_INFO'], 'query': env.get('QUERY_STRING', ''),
                          'received': int(env.get('CONTENT_LENGTH') or 0)}
        for piece in app(env, start):
            sent += len(piece)
            yield piece
        with open(path, 'a') as out:
            out.write(json.dumps({**asked, 'status': said[-1], 'sent': sent}) + '\n')
    return answer


def make_bucket(app, bucket):
    from swift.common.swob import Request

    def put(path):
        env = {'REQUEST_METHOD': 'PUT', 'swift.authorize_override': True, 'swift.authorize': lambda request: None,
               'swift_owner': True}
        answer = Request.blank(path, environ=env).get_response(app)
        if answer.status_int // 100 != 2:
            sys.exit('cannot make %s: %s' % (path, answer.status))
    put('/v1/AUTH_test')
    put('/v1/AUTH_test/' + bucket)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('folder')
    parser.add_argument('--port', type=int, default=0)
    parser.add_argument('--bucket', default='shoal')
    parser.add_argument('--ready')
    parser.add_argument('--log')
    args = parser.parse_args()
    folder = os.path.abspath(args.folder)
    os.makedirs(folder, exist_ok=True)
    try:
        import eventlet
        eventlet.monkey_patch()
        import swift.common.utils as utils
    except ImportError as missing:
        print('python3-swift is not installed: %s' % missing)
        sys.exit(77)
    utils.HASH_PATH_SUFFIX = b'shoal'
    utils.HASH_PATH_PREFIX = b''
    utils.validate_hash_conf = lambda: None
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    serve_parts(folder)
    conf = os.path.join(folder, 'proxy.conf')
    with open(conf, 'w') as out:
        out.write(PIPELINE.format(folder=folder))
    from swift.common.wsgi import loadapp
    app = loadapp(conf, allow_modify_pipeline=True)
    sock = eventlet.listen(('127.0.0.1', args.port), reuse_port=False)
    make_bucket(app._pipeline_final_app if hasattr(app, '_pipeline_final_app') else app, args.bucket)
    endpoint = 'http://127.0.0.1:%d' % sock.getsockname()[1]
    if args.ready:
        with open(args.ready + '.new', 'w') as out:
            out.write(endpoint + '\n')
        os.rename(args.ready + '.new', args.ready)
    print(endpoint, flush=True)
    cache = Cache()

    def with_cache(env, start_response):
        env['swift.cache'] = cache
        return app(env, start_response)
    serve(sock, logged(with_cache, args.log) if args.log else with_cache)


if __name__ == '__main__':
    main()
