/**
 * Python's own `urllib` as a client of the gateway, over a port: a language without an SDK. Each way has one process, which is
 * ready before the first call, because its start would count as time of the call.
 */
import { Effect } from "effect"
import type { Scope } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { Server } from "@outlast/gateway"
import type { Answer } from "./GatewayWays.ts"
import { model, opened } from "./GatewayWays.ts"
import type { Way } from "./Ways.ts"

/** Answers each line of its input, a number, with a line of JSON. */
const program = `
import json, sys, threading, urllib.error, urllib.request
url, model, streams = sys.argv[1], sys.argv[2], sys.argv[3] == "true"

def body(response, got):
    if not streams:
        value = json.load(response)
        got.update(text=value["choices"][0]["message"]["content"], model=value["model"])
        got.update(outputTokens=value["usage"]["completion_tokens"])
        return
    for line in response:
        if not line.startswith(b"data: "):
            continue
        if line.strip() == b"data: [DONE]":
            return
        value = json.loads(line[6:])
        if "error" in value:
            raise Exception(value["error"]["message"])
        got["model"] = value["model"]
        for choice in value["choices"]:
            got["text"] += choice["delta"].get("content") or ""
        if value.get("usage"):
            got["outputTokens"] = value["usage"]["completion_tokens"]
    raise Exception("The stream has no [DONE].")

def ask(number):
    got = {"number": number, "text": "", "model": None, "outputTokens": None, "error": None}
    try:
        asked = {"model": model, "messages": [{"role": "user", "content": "Why do rivers run in bends?"}]}
        if streams:
            asked.update(stream=True, stream_options={"include_usage": True})
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(url, json.dumps(asked).encode(), headers)
        with urllib.request.urlopen(request) as response:
            body(response, got)
    except urllib.error.HTTPError as error:
        got["error"] = f"HTTP {error.code}: {error.read().decode()}"
    except Exception as error:
        got["error"] = str(error)
    print(json.dumps(got), flush=True)

print("ready", flush=True)
for line in sys.stdin:
    threading.Thread(target=ask, args=(int(line),), daemon=True).start()
`

interface Got extends Answer {
  readonly number: number
}

/** A running program. Returns a function that asks by it. */
const python = (url: string, streams: boolean): Effect.Effect<() => Promise<Answer>, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const child = spawn("python3", ["-c", program, url, model, String(streams)], {
          stdio: ["pipe", "pipe", "inherit"]
        })
        const lines = createInterface({ input: child.stdout })
        await once(lines, "line")
        return { child, lines }
      }),
      ({ child }) => Effect.sync(() => child.kill())
    ),
    ({ child, lines }) => {
      const waiting = new Map<number, (answer: Answer) => void>()
      lines.on("line", (line) => {
        const { error, model, number, outputTokens, text }: Got = JSON.parse(line)
        // Python has null for undefined.
        waiting.get(number)?.({
          text,
          error: error ?? undefined,
          model: model ?? undefined,
          outputTokens: outputTokens ?? undefined
        })
      })
      let calls = 0
      return () =>
        new Promise((resolve) => {
          waiting.set(++calls, resolve)
          child.stdin.write(`${calls}\n`)
        })
    }
  )

const way = (name: string, streams: boolean): Way => ({
  name: `gateway, chat, ${name}`,
  streams,
  open: (url) =>
    Effect.gen(function* () {
      const gateway = yield* opened(url, ["chat", "chat"])
      const server = yield* Effect.orDie(Server.listen(gateway, { drain: 0 }))
      const ask = yield* python(`${server.url}/v1/chat/completions`, streams)
      return Effect.promise(ask)
    })
})

/** None where there is no `python3`. */
export const pythonWays = (): ReadonlyArray<Way> =>
  spawnSync("python3", ["--version"]).status === 0 ? [way("python", true), way("python whole", false)] : []
