/**
 * The world that tools change, in a process of its own: it records every effect that reaches it, by its key.
 *
 * `POST /KEY` makes an effect, each time that it is asked. `GET /KEY` says how often it has happened, `GET /` of all.
 */
import { createServer } from "node:http"

const effects = new Map<string, number>()

const server = createServer((request, response) => {
  const key = decodeURIComponent((request.url ?? "/").slice(1))
  if (request.method === "POST") effects.set(key, (effects.get(key) ?? 0) + 1)
  request.resume()
  request.once("end", () =>
    response.end(JSON.stringify(key === "" ? Object.fromEntries(effects) : (effects.get(key) ?? 0)))
  )
})

server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  console.log(typeof address === "object" && address !== null ? address.port : 0)
})
// Whoever started it is gone.
process.stdin.on("end", () => process.exit(0)).resume()
