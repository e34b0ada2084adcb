/** `npm run simulate`: what a policy does in a world, before an outage shows it. See `docs/load.md`. */
import { run } from "./Command.ts"

process.exitCode = await run(process.argv.slice(2), {
  out: (text) => void console.log(text),
  error: (text) => void console.error(text)
})
