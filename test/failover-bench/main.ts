/** `npm run failover-bench`: how a chain with default settings stands a public crash test. See `docs/internals/load.md`. */
import { run } from "./Command.ts"

process.exitCode = await run(process.argv.slice(2), {
  out: (text) => void console.log(text),
  error: (text) => void console.error(text)
})
