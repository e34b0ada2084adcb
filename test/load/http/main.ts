/** `npm run load`: the programs over real HTTP, through `Failover` and through a plain client. See `docs/internals/load.md`. */
import { measure } from "./Measure.ts"
import { programs } from "./Programs.ts"

const wanted = process.argv.slice(2)
const known = programs.map(({ name }) => name)
const unknown = wanted.filter((name) => !known.includes(name))
if (unknown.length > 0) {
  console.error(`There is no program ${unknown.join(", ")}. There are: ${known.join(", ")}.`)
  process.exit(2)
}

console.log("| program | client | answered | requests a call | median | slowest | left |")
console.log("| --- | --- | --- | --- | --- | --- | --- |")
for (const program of programs.filter(({ name }) => wanted.length === 0 || wanted.includes(name))) {
  const calls = program.arrivals.length
  for (const client of ["outlast", "plain"] as const) {
    const { answered, wrong, requests, median, slowest, left, failures } = await measure(program, client)
    const cells = [
      program.name,
      client,
      `${answered} of ${calls}${wrong > 0 ? `, ${wrong} wrong` : ""}`,
      (requests / calls).toFixed(2),
      `${median.toFixed(1)} s`,
      `${slowest.toFixed(1)} s`,
      `${left}`
    ]
    console.log(`| ${cells.join(" | ")} |`)
    if (client === "outlast") {
      for (const [failure, times] of failures) console.error(`  ${times} times: ${failure}`)
    }
  }
}
