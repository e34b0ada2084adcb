/** Settings from files and from the environment, changed while a program runs. */
export * as Decision037Config from "./Decision037Config.ts"
export * as LiveConfig from "./LiveConfig.ts"
export * as OutlastConfig from "./OutlastConfig.ts"
