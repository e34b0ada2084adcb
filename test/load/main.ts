/** `npm run simulate`: simulates a policy in a world of failing servers. See `docs/internals/load.md`. */
import { run } from "./Command.ts"

process.exitCode = await run(process.argv.slice(2), {
  out: (text) => void console.log(text),
  error: (text) => void console.error(text)
})
