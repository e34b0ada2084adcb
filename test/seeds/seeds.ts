/** All promises, by the system that makes them. */
import type { Seed } from "./Promises.ts"
import { claw0 } from "./promises/claw0.ts"
import { codebuddy } from "./promises/codebuddy.ts"
import { decision037 } from "./promises/decision037.ts"
import { nexo } from "./promises/nexo.ts"
import { request } from "./promises/request.ts"
import { s11 } from "./promises/s11.ts"

export const seeds: ReadonlyArray<Seed> = [codebuddy, decision037, s11, nexo, claw0, request]
