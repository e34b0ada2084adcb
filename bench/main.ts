/** `npm run bench -- <name>` */
import { failover } from "./failover.ts"

const benches: Readonly<Record<string, { readonly what: string; readonly run: () => Promise<void> }>> = {
  failover: { what: "a model without I/O, raw and behind Failover.layer", run: failover }
}

const usage = [
  "Usage: npm run bench -- <name>",
  "",
  ...Object.entries(benches).map(([name, { what }]) => `  ${name.padEnd(12)}${what}`)
].join("\n")

const [name, ...rest] = process.argv.slice(2)
const bench = name !== undefined && Object.hasOwn(benches, name) ? benches[name] : undefined
if (name === undefined) {
  console.log(usage)
} else if (bench === undefined || rest.length > 0) {
  const problem =
    bench === undefined ? `There is no bench named "${name}".` : `"${rest.join(" ")}" is too much.`
  console.error(`${problem}\n\n${usage}`)
  process.exitCode = 2
} else {
  await bench.run()
}
