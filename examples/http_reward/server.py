"""A reward server in the standard library: server.py PORT. It rewards one sentence of ten to twenty words."""

import http.server
import json
import sys


def score(completion):
    words = len(completion.split())
    return max(0.0, 1 - abs(words - 15) / 15) * (1.0 if completion.strip().endswith((".", "!", "?")) else 0.5)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({"id": request["id"], "rewards": [score(text) for text in request["completions"]]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
