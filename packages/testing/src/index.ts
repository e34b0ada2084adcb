export * as FakeProvider from "./FakeProvider.ts"
export * as FaultPlan from "./FaultPlan.ts"
export * as ScriptedModel from "./ScriptedModel.ts"
