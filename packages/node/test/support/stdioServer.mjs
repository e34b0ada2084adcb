// A JSON-RPC server on standard input and output: `stdioServer.mjs <kind>`.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

const kind = process.argv[2] ?? ""

if (kind === "dies") process.exit(9)
if (kind.includes("stubborn")) {
  process.on("SIGTERM", () => {})
  // Also when standard input has ended.
  setInterval(() => {}, 1_000)
}
if (kind.includes("family")) {
  const child = spawn("sleep", ["600"], { stdio: "ignore" })
  process.stderr.write(`child ${child.pid}\n`)
}
if (kind.includes("left")) {
  // Leaders of sessions of their own, with a child each. The second one ignores SIGTERM.
  const programs = ["sleep 600 & wait", "trap '' TERM; while true; do sleep 600; done"]
  const leaders = programs.map((program) => spawn("sh", ["-c", program], { stdio: "ignore", detached: true }))
  process.stderr.write(`left ${leaders.map(({ pid }) => pid).join(" ")}\n`)
}
if (kind === "noisy") {
  const flood = () => process.stderr.write("x".repeat(65_536), flood)
  flood()
}

const answer = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)

const methods = {
  ping: () => ({}),
  echo: (params) => params,
  environment: () => ({ own: process.env.OWN, path: process.env.PATH !== undefined, folder: process.cwd() })
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) return
  switch (method) {
    case "exit":
      return process.exit(3)
    case "die":
      return process.kill(process.pid, "SIGKILL")
    case "never":
      return undefined
    case "deaf":
      process.stdin.destroy()
      setInterval(() => {}, 1_000)
      return answer({ id, result: "deaf" })
    case "null error":
      return answer({ id, result: "answered", error: null })
    case "mute":
      return process.stdout.end()
    case "long line":
      return process.stdout.write("x".repeat(10_000))
    case "flood": {
      const lines = "this is no message\n".repeat(1_000)
      for (let i = 0; i < 40; i++) process.stdout.write(lines)
      return answer({ id, result: "flooded" })
    }
    case "confuse":
      for (const odd of [
        "",
        "null",
        "[]",
        "{}",
        '{"id":"a"}',
        '{"id":99,"result":1}',
        "\u0000",
        '{"id":1e999}'
      ])
        process.stdout.write(`${odd}\n`)
      return answer({ id, result: "not confused" })
    case "ask back":
      answer({ id: "ping-1", method: "ping" })
      answer({ id: "other-1", method: "sampling/createMessage" })
      return answer({ id, result: "asked" })
    default:
      return methods[method] === undefined
        ? answer({ id, error: { code: -32_601, message: `no ${method}` } })
        : answer({ id, result: methods[method](params) })
  }
})
