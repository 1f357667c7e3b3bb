"""Two minimal components for testing runners."""

from tfx import v1 as tfx

from xtr_tf.training.progress import TrainingInterruptedError


@tfx.dsl.components.component
def Produce(text: tfx.dsl.components.Parameter[str]) -> tfx.dsl.components.OutputDict(said=str):  # type: ignore
    print("noise on standard output")
    return {"said": text}


@tfx.dsl.components.component
def Shout(said: str) -> tfx.dsl.components.OutputDict(shouted=str):  # type: ignore
    if "wrong" in said:
        raise ValueError("The text must not be wrong. Received: wrong.")
    if said == "stop":
        raise KeyboardInterrupt
    if said == "stop training":
        raise TrainingInterruptedError(7)
    return {"shouted": said.upper()}
