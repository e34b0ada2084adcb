/**
 * Five known systems as policies, one namespace for each. Each namespace has a `policy` and the other numbers of
 * its system. The header of each module lists the differences from the system's document.
 *
 * Use them to migrate from one of these systems, or to compare. For a new program use the default,
 * `RecoveryPolicy.interactive`.
 *
 * **Example**
 *
 * ```ts
 * const Model = Failover.layer(chain, { policy: Presets.codebuddy.policy })
 * ```
 */
export * as claw0 from "./Claw0.ts"
export * as codebuddy from "./Codebuddy.ts"
export * as decision037 from "./Decision037.ts"
export * as nexo from "./Nexo.ts"
export * as s11 from "./S11.ts"
export { background, interactive } from "./Patience.ts"
