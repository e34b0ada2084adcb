import { logOf } from "/work/wt-rules/test/load/Simulation.ts"
import * as Worlds from "/work/wt-rules/test/load/Worlds.ts"
import * as Chains from "/work/wt-rules/test/load/Chains.ts"
import * as Arrivals from "/work/wt-rules/test/load/Arrivals.ts"
import { policies } from "/work/wt-rules/test/load/Policies.ts"
const [,, world, chain, arr, from, to, seed="1"] = process.argv
const parse = (Arrivals as any).parse ?? (Arrivals as any).of
const log = logOf({ world: (Worlds as any).worlds[world], chain: ((Chains as any).chains)[chain] , arrivals: parse(arr), policy: (policies as any).interactive, seed: Number(seed) } as any)
const per: Record<number, number> = {}
for (const at of log.requests) per[Math.floor(at/1000)] = (per[Math.floor(at/1000)] ?? 0) + 1
const ans: Record<number, number> = {}; 
for (const c of log.calls) if (c.answered && c.end!==undefined) ans[Math.floor(c.end/1000)] = (ans[Math.floor(c.end/1000)] ?? 0)+1
for (let s=Number(from); s<Number(to); s++) console.log(s, per[s] ?? 0, ans[s] ?? 0)
console.log(log.circuits.slice(0,12))
console.log("answered", log.calls.filter(c=>c.answered).length, "of", log.calls.length)
