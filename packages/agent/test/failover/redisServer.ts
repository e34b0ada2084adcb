/**
 * The Redis server of the tests of `@outlast/resilience`. Each test starts its own on a free port.
 */
// oxlint-disable-next-line no-restricted-imports -- Support of tests is in no package.
export { missing, running } from "../../../resilience/test/support/RedisServer.ts"
// oxlint-disable-next-line no-restricted-imports -- Support of tests is in no package.
export type { RedisServer } from "../../../resilience/test/support/RedisServer.ts"
