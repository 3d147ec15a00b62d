// Between a client and the server: sees every request, and can answer or fail in the server's
// place. What it is not told to do, it leaves to the server.
import http from "node:http";

export async function startProxy(target) {
  const seen = [];
  const planned = [];
  const server = http.createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks);
      const call = { path: request.url, headers: request.headers, body: JSON.parse(body), reply: null };
      seen.push(call);
      const plan = planned.shift() ?? "pass";
      if (plan === "hang") return;
      if (typeof plan === "number") return refuse(response, plan);
      forward(target, request, body).then(({ head, text }) => {
        call.reply = JSON.parse(text);
        // The server has done its work, and nobody will hear of it.
        if (plan === "lose") return response.destroy();
        response.writeHead(head.statusCode, head.headers);
        response.end(text);
      }, () => response.destroy());
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    // The requests since the last look.
    taken: () => seen.splice(0),
    // What becomes of the next requests: "hang", "lose", "pass", or a status to refuse them with.
    plan: (...next) => planned.push(...next),
  };
}

function refuse(response, status) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({
    meta: { requestId: "req_proxy0000" },
    error: { title: "Planned", detail: "The proxy was told to.", status, type: "planned" },
  }));
}

function forward(target, request, body) {
  return new Promise((resolve, reject) => {
    const options = { method: request.method, headers: request.headers };
    const onward = http.request(target + request.url, options, (head) => {
      const chunks = [];
      head.on("data", (chunk) => chunks.push(chunk));
      head.on("end", () => resolve({ head, text: Buffer.concat(chunks) }));
    });
    onward.on("error", reject);
    onward.end(body);
  });
}
