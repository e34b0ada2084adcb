/**
 * Five known systems and the two policies that ship, one namespace for each. `layer(chain)` provides a system's policy,
 * circuits, compaction, alerts and log lines; `agent(options)` is a run under its limits. The parts can be used alone,
 * for example `policy`. `deviations` lists the differences from the system's document.
 *
 * Use the five systems to migrate from one of them, or to compare. For a new program use `interactive` or `background`.
 *
 * **Example**
 *
 * ```ts
 * Presets.codebuddy.agent({ prompt, toolkit }).pipe(Effect.provide(Presets.codebuddy.layer(chain)))
 * ```
 */
export * as claw0 from "./Claw0.ts"
export * as codebuddy from "./Codebuddy.ts"
export * as decision037 from "./Decision037.ts"
export * as nexo from "./Nexo.ts"
export * as s11 from "./S11.ts"
export { background, interactive } from "./Patience.ts"
